#include "engine/base/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <string_view>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/base/host_name.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kName = ".lock";

/// What a lock file says.
struct Holder {
  std::string who;      // as it described itself; "" when that can't be read
  std::string problem;  // why not
  bool is_missing = false;
  std::string line{};  // that it has added
};

/// An open lock file.
Holder holder(int fd) {
  char text[2 * FolderLock::kMostLine];
  const ssize_t count = pread(fd, text, sizeof(text), 0);
  if (count < 0) return {.problem = std::strerror(errno)};
  const std::string_view said(text, static_cast<size_t>(count));
  const size_t end = said.find('\n');
  const std::string who(said.substr(0, end));
  std::string line;
  if (end != said.npos)
    if (const size_t next = said.find('\n', end + 1); next != said.npos) line = said.substr(end + 1, next - end - 1);
  return {.who = who, .problem = who.empty() ? "it is empty" : "", .line = std::move(line)};
}

/// A folder's.
Holder holder(const fs::path& folder) {
  const FileDescriptor file(open((folder / kName).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file) return {.problem = std::strerror(errno), .is_missing = errno == ENOENT};
  return holder(file.get());
}

constexpr const char* kEpoch = ", leader epoch ";

/// 0: it has none.
int64_t epoch_in(const std::string& who) {
  const size_t at = who.rfind(kEpoch);
  const int64_t epoch = at == who.npos ? 0 : std::atoll(who.c_str() + at + std::strlen(kEpoch));
  return epoch > 0 && epoch < kMostEpochs ? epoch : 0;
}

std::string name_of_this_process(int64_t epoch) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  std::tm local{};
  localtime_r(&now.tv_sec, &local);
  char since[32];
  std::strftime(since, sizeof(since), "%F %T", &local);
  // In containers, process ids and host names repeat; the moment doesn't.
  return fmt::format("process {} on {} since {}.{:06}{}{}", getpid(), host_name(), since, now.tv_nsec / 1000, kEpoch,
                     epoch);
}

/// As fs::create_directories(), but the last folder is for this user only.
void create_private(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder.parent_path(), error);
  if (error) throw machine_error("create", folder.parent_path(), error.value());
  if (mkdir(folder.c_str(), S_IRWXU) != 0 && errno != EEXIST) throw machine_error("create", folder, errno);
}

/// The error of a lock file that couldn't be opened or written.
MachineError write_error(const fs::path& path, int error) {
  std::error_code ignored;
  if (error != EPERM || !fs::exists(path, ignored)) return machine_error("write", path, error);
  return MachineError(
      "cannot write {}: {}\n  this file system changes no files in place: mount it so that it does (rclone: "
      "--vfs-cache-mode full), or set output_dir to another one",
      path.string(), std::strerror(error));
}

/// The error of a lock that couldn't be taken.
MachineError lock_error(const fs::path& path, int error) {
  if (error != ENOSYS && error != ENOLCK && error != EOPNOTSUPP) return machine_error("lock", path, error);
  return MachineError(
      "cannot lock {}: {}\n  this file system has no locks (on Lustre, they need the mount option `flock`), and "
      "without one two runs could write to one folder: set output_dir to another file system",
      path.string(), std::strerror(error));
}

/// False when `fd` is a lock file that its last holder has removed since we opened it.
bool is_still_at(int fd, const fs::path& path) {
  struct stat opened {};
  struct stat named {};
  return fstat(fd, &opened) == 0 && stat(path.c_str(), &named) == 0 && opened.st_ino == named.st_ino &&
         opened.st_dev == named.st_dev;
}

/// The topmost part of `folder` that doesn't exist yet.
fs::path first_missing(const fs::path& folder) {
  fs::path missing;
  for (fs::path part = folder; !part.empty() && !fs::exists(part); part = part.parent_path()) missing = part;
  return missing;
}

}  // namespace

FolderLock::FolderLock(const fs::path& folder) : folder_(fs::absolute(folder).lexically_normal()) {
  if (!folder_.has_filename()) folder_ = folder_.parent_path();
  first_created_ = first_missing(folder_);
  create_private(folder_);
  acquire();
}

void FolderLock::acquire() {
  const fs::path path = folder_ / kName;
  do {
    file_.reset(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
    if (!file_) throw write_error(path, errno);
    int locked = 0;
    do locked = flock(file_.get(), LOCK_EX | LOCK_NB);
    while (locked != 0 && errno == EINTR);
    if (locked != 0) {
      if (errno != EWOULDBLOCK) throw lock_error(path, errno);
      const std::string who = holder(file_.get()).who;
      throw FolderInUse("output folder in use: {}\n  by {}\n  wait for that run, stop it, or set another output_dir",
                        folder_.string(), who.empty() ? "another process" : who);
    }
  } while (!is_still_at(file_.get(), path));
  raise_epoch(epoch_in(holder(file_.get()).who));
}

void FolderLock::raise_epoch(int64_t above) {
  if (epoch_ > above) return;
  epoch_ = above + 1;
  who_ = name_of_this_process(epoch_);
  sign();
}

/// Replaces the text in place, at no moment by nothing: others may read it.
void FolderLock::sign() {
  const std::string text = who_ + "\n" + line_;
  if (pwrite(file_.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()) ||
      ftruncate(file_.get(), static_cast<off_t>(text.size())) != 0)
    throw write_error(folder_ / kName, errno);
}

FolderLock::~FolderLock() {
  if (!file_ || folder_is_used() || !is_still_at(file_.get(), folder_ / kName)) return;
  unlink((folder_ / kName).c_str());
  file_.reset();  // NFS keeps a removed file that is open, under another name
  if (first_created_.empty()) return;
  // rmdir refuses a folder with anything in it, so this stops at the first one that is used.
  for (fs::path part = folder_; rmdir(part.c_str()) == 0 && part != first_created_;) part = part.parent_path();
}

bool FolderLock::folder_is_used() const {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_, error)) {
    if (entry.path().filename() != kName) return true;
  }
  return static_cast<bool>(error);  // not known: then nothing is removed
}

void FolderLock::add_line(const std::string& line) {
  line_ = line.substr(0, kMostLine) + "\n";
  sign();
}

std::string line_of_holder(const fs::path& folder) {
  return holder(folder).line;
}

FolderOwner::FolderOwner(fs::path folder, std::string name)
    : folder_(std::move(folder)), who_(name.empty() ? holder(folder_).who : std::move(name)) {}

FolderOwner FolderOwner::from_environment(fs::path folder) {
  const char* const name = std::getenv(kOwnerVariable);
  return FolderOwner(std::move(folder), name != nullptr ? name : "");
}

int64_t FolderOwner::epoch() const {
  return epoch_in(who_);
}

std::string FolderOwner::taken_over() const {
  return taken_over_by(holder(folder_).who);
}

std::string FolderOwner::taken_over_by(const std::string& now) const {
  if (now.empty() || now == who_) return "";
  return fmt::format(
      "output folder taken over: {}\n  by {}\n  while this run ({}) was paused or cut off; this run no longer writes "
      "to it",
      folder_.string(), now, who_);
}

void FolderOwner::require() const {
  const Holder now = holder(folder_);
  if (const std::string why = taken_over_by(now.who); !why.empty()) throw PeerError("{}", why);
  // Without the file, there is no other owner either: it would have created one.
  if (!now.problem.empty() && !now.is_missing && !who_.empty())
    throw MachineError(
        "cannot read whose folder {} is: {}: {}\n  nothing is changed in it without knowing that it is "
        "still this run's",
        folder_.string(), kName, now.problem);
}

pid_t process_using(const fs::path& folder) {
  const FileDescriptor file(open((folder / kName).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file || flock(file.get(), LOCK_SH | LOCK_NB) == 0) return 0;
  const std::string who = holder(file.get()).who;
  int pid = 0;
  char host[65] = "";
  const std::string own = host_name();
  if (std::sscanf(who.c_str(), "process %d on %64s", &pid, host) != 2 || std::string(host) != own || pid < 1)
    throw MachineError("{} is in use by {}, which is not a process of this machine ({})", folder.string(), who, own);
  return pid;
}

}  // namespace trainer
