#include "data/cache/cache_list.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include <nlohmann/json.hpp>

#include "data/cache/token_cache.h"
#include "engine/base/bounded_json.h"
#include "engine/base/errors.h"
#include "engine/base/file_descriptor.h"
#include "engine/base/files.h"

namespace trainer::data {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kPartial = ".partial";
constexpr int64_t kMostOfAbout = int64_t{1} << 26;
constexpr auto kInUse = std::chrono::hours(1);

/// The name that a cache in progress will have; the entry's own name otherwise.
std::string final_name(const std::string& name) {
  return name.starts_with('.') ? name.substr(1, name.size() - 1 - kPartial.size()) : name;
}

fs::path lock_of(const fs::path& folder, const std::string& name) {
  return folder / (final_name(name) + ".lock");
}

/// Folders that only a token cache looks like: others in data.cache_dir are not ours to touch.
bool is_cache(const fs::path& path) {
  const std::string name = path.filename().string();
  std::error_code error;
  if (!fs::is_directory(fs::symlink_status(path, error))) return false;
  const bool partial = name.starts_with('.') && name.ends_with(kPartial) && name.size() > kPartial.size() + 1;
  return fs::exists(path / "tokens", error) && (partial || fs::exists(path / kCacheFacts, error)) &&
         fs::exists(lock_of(path.parent_path(), name), error);
}

CacheEntry entry_of(const fs::path& path) {
  CacheEntry entry{.name = path.filename().string()};
  std::error_code error;
  for (const auto& file : fs::directory_iterator(path, error))
    if (const auto bytes = file.file_size(error); !error) entry.bytes += static_cast<int64_t>(bytes);
  entry.used =
      std::max(fs::last_write_time(path, error), fs::last_write_time(lock_of(path.parent_path(), entry.name), error));
  try {
    const auto about = bounded_json_or_none(read_file(path / kCacheFacts, kMostOfAbout));
    if (about.is_object() && about.contains("samples") && about["samples"].is_number_integer() &&
        about.contains("tokens") && about["tokens"].is_number_integer()) {
      entry.samples = about["samples"].get<int64_t>();
      entry.tokens = about["tokens"].get<int64_t>();
    }
  } catch (const Error&) {  // incomplete
  }
  return entry;
}

}  // namespace

std::vector<CacheEntry> list_caches(const fs::path& folder) {
  std::vector<CacheEntry> entries;
  std::error_code error;
  if (!fs::exists(folder, error)) return entries;
  fs::directory_iterator place(folder, error);
  if (error) throw InputError("{}: cannot read the folder: {}.", folder.string(), error.message());
  for (const auto& found : place)
    if (is_cache(found.path())) entries.push_back(entry_of(found.path()));
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.used > b.used; });
  return entries;
}

std::vector<CacheEntry> beyond(const std::vector<CacheEntry>& entries, const CacheLimits& limits,
                               fs::file_time_type now) {
  std::vector<CacheEntry> found;
  int64_t kept = 0;
  for (const CacheEntry& entry : entries) {
    const bool old = limits.age && now - entry.used > *limits.age;
    const bool large = limits.bytes && kept + entry.bytes > *limits.bytes;
    if ((old || large) && now - entry.used > kInUse)
      found.push_back(entry);
    else
      kept += entry.bytes;
  }
  return found;
}

bool remove_cache(const fs::path& folder, const CacheEntry& entry) {
  const fs::path lock = lock_of(folder, entry.name), path = folder / entry.name;
  const FileDescriptor file(open(lock.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!file) throw machine_error("open", lock, errno);
  if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) return false;
  std::error_code error;
  fs::remove_all(path, error);
  if (error) throw machine_error("remove", path, error.value());
  return true;  // the lock file stays: another process may be waiting for it
}

}  // namespace trainer::data
