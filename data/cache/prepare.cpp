#include "data/cache/prepare.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "data/cache/cache_maker.h"
#include "data/cache/content_hash.h"
#include "data/readers/class_label.h"
#include "data/readers/paths.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/base/log.h"
#include "engine/base/publish_folder.h"
#include "engine/base/user_cache.h"
#include "engine/config/tables.h"

namespace trainer::data {
namespace fs = std::filesystem;
namespace {

/// To be changed when the storage format changes, or what samples are made of: older caches are then ignored.
constexpr const char* kFormat = "store 6";

/// Options of `data` that don't change the samples, or are hashed separately.
bool is_elsewhere(const std::string& name) {
  for (const char* other : {"path", "weights", "validation", "megatron", "labels", "shuffle", "packing", "cache_dir",
                            "preprocessing_num_workers", "max_samples", "max_samples_choice"})
    if (name == other) return true;
  return false;
}

void append_options(const config::Entries& entries, const void* section, std::string& text) {
  for (const config::Entry& entry : entries) {
    if (is_elsewhere(entry.name)) continue;
    if (entry.children != nullptr)
      append_options(*entry.children, entry.find(section), text);
    else if (entry.write)
      text += fmt::format("{}: {}\n", entry.name, config::text_of(entry.write(section)));
  }
}

/// Everything that the tokenized samples depend on, as text.
std::string recipe(const PrepareRequest& request, const std::vector<std::string>& files, const Tokenizer& tokenizer,
                   const fs::path& memory) {
  std::string text = fmt::format("{}\ntexts {}\nrecords {}\n", kFormat, request.keep_texts, request.max_records);
  if (request.seed) text += fmt::format("seed {}\n", *request.seed);
  config::DataConfig config = request.config;
  config.train = request.source;
  std::vector<std::string> more;
  for (const fs::path& file : tokenizer.files()) more.push_back(file.string());
  std::error_code ignored;
  if (fs::is_regular_file(config.chat_template, ignored)) more.push_back(std::exchange(config.chat_template, "file"));
  append_options(config::data_table(), &config, text);
  for (const std::vector<std::string>* paths : {&std::as_const(more), &files})
    for (const std::string& hash : file_hashes(*paths, memory)) text += hash + "\n";
  if (request.config.task == config::Task::kSequenceClassification) {
    text += "class names\n";  // those in tables are part of their files
    for (const std::string& path : request.source.path)
      for (const std::string& name : class_names_of_folder(path, target_column(request.config))) text += name + "\n";
  }
  for (const SourceEntry& entry : find_sources(request.source)) text += fmt::format("{} files\n", entry.files.size());
  return text;
}

MachineError cache_error(const char* action, const fs::path& path, int error) {
  return MachineError("{}\n  Tokenized samples are cached there: set data.cache_dir to a writable folder.",
                      machine_error(action, path, error).what());
}

/// A lock that one process holds at a time while the others wait. The kernel releases it when the process dies.
class PreparationLock {
 public:
  explicit PreparationLock(const fs::path& path)
      : file_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666)) {
    if (!file_) throw cache_error("write", path, errno);
    while (flock(file_.get(), LOCK_EX) != 0)
      if (errno != EINTR) throw machine_error("lock", path, errno);
    futimens(file_.get(), nullptr);  // when the cache was last used, for `trainer cache`
  }

 private:
  FileDescriptor file_;
};

/// A folder that is removed at the end unless it was published.
class PartialFolder {
 public:
  explicit PartialFolder(const fs::path& path) : path_(path) {
    fs::remove_all(path_);  // left behind by a killed process
    std::error_code error;
    if (!fs::create_directory(path_, error)) throw cache_error("create", path_, error.value());
  }
  ~PartialFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::vector<std::string> states_of(const std::vector<std::string>& files) {
  std::vector<std::string> states;
  for (const std::string& file : files) states.push_back(file_state(file));
  return states;
}

/// Whether only this user, or root, can have written `path`. (A group may be the user's own: the mode says nothing.)
bool is_own(const fs::path& path) {
  struct stat about {};
  return lstat(path.c_str(), &about) == 0 && !S_ISLNK(about.st_mode) && (about.st_mode & S_IWOTH) == 0 &&
         (about.st_uid == geteuid() || about.st_uid == 0);
}

bool holds_only_own(const fs::path& folder) {
  if (!is_own(folder)) return false;
  std::error_code error;
  for (const fs::directory_entry& file : fs::directory_iterator(folder, error))
    if (!is_own(file.path())) return false;
  return !error;
}

/// Where a cache named `name` is, or is to be. In a folder that others write to as well, their caches are not read:
/// nothing shows that the samples in them are those of the files.
fs::path place_of(const fs::path& cache, const std::string& name) {
  const fs::path folder = cache / name;
  std::error_code ignored;
  if (!fs::exists(fs::symlink_status(folder, ignored)) || holds_only_own(folder)) return folder;
  log::warning("{}: another user can have written it, so it is not used; the samples are cached again",
               folder.string());
  return cache / fmt::format("{}-{}", name, geteuid());
}

fs::path folder_without_home() {
  return fs::temp_directory_path() / fmt::format("trainer-data-{}", geteuid());
}

/// A folder for this user alone in a folder that everybody writes to.
void create_private(const fs::path& folder) {
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) throw machine_error("create", folder, errno);
  struct stat about {};
  const bool found = lstat(folder.c_str(), &about) == 0;
  if (!found || !S_ISDIR(about.st_mode) || about.st_uid != geteuid() || (about.st_mode & 077) != 0)
    throw MachineError(
        "{}: is not a folder that only this user can read and write\n  Tokenized samples are cached there, as HOME is "
        "not set: set HOME, XDG_CACHE_HOME or data.cache_dir.",
        folder.string());
}

/// The token cache of an earlier run; null when there is none, or it is invalid.
std::shared_ptr<const TokenCache> open_store(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::exists(folder, ignored)) return nullptr;
  try {
    return std::make_shared<TokenCache>(folder);
  } catch (const InputError& error) {
    log::warning("{}", error.what());
    return nullptr;
  }
}

}  // namespace

std::string target_column(const config::DataConfig& config) {
  const std::string& target = config.target;
  const bool is_template = target.size() > 2 && target.front() == '{' && target.back() == '}';
  return is_template ? target.substr(1, target.size() - 2) : target;
}

fs::path cache_folder(const config::DataConfig& config) {
  if (!config.cache_dir.empty()) return config.cache_dir;
  const fs::path cache = user_cache();
  return cache.empty() ? folder_without_home() : cache / "data";
}

std::shared_ptr<const TokenCache> prepare(const PrepareRequest& request, const Tokenizer& tokenizer) {
  const fs::path cache = cache_folder(request.config), memory = cache / "hashes";
  std::error_code error;
  if (cache == folder_without_home()) create_private(cache);
  fs::create_directories(memory, error);
  if (error) throw cache_error("create", memory, error.value());
  const std::vector<std::string> files = expand_paths(request.source), states = states_of(files);
  const std::string name = text_hash(recipe(request, files, tokenizer, memory));
  const fs::path folder = place_of(cache, name);
  const PreparationLock lock(cache / (folder.filename().string() + ".lock"));
  if (auto store = open_store(folder)) return store;
  const PartialFolder partial(cache / ("." + folder.filename().string() + ".partial"));
  make_store(request, tokenizer, partial.path());
  if (states_of(files) != states)
    throw InputError("{}: changed while it was being read. Try again when it is complete.", files.front());
  publish_folder(partial.path(), folder, kCacheFacts);
  return std::make_shared<TokenCache>(folder);
}

}  // namespace trainer::data
