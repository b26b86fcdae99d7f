#include "engine/base/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <ctime>
#include <string>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/base/host_name.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kName = ".lock";

/// The holder of the lock, as it described itself; "" when it couldn't because the disk was full.
std::string holder(int fd) {
  char text[200];
  const ssize_t count = pread(fd, text, sizeof(text), 0);
  return count > 0 ? std::string(text, static_cast<size_t>(count)) : "";
}

std::string holder(const fs::path& folder) {
  const FileDescriptor file(open((folder / kName).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  return file ? holder(file.get()) : "";
}

void sign(int fd) {
  std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char since[32];
  std::strftime(since, sizeof(since), "%F %T", &local);
  const std::string text = fmt::format("process {} on {} since {}", getpid(), host_name(), since);
  // The text is only used in a message: a full disk must not prevent the run.
  if (ftruncate(fd, 0) == 0 && pwrite(fd, text.data(), text.size(), 0) < 0) return;
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
  std::error_code error;
  first_created_ = first_missing(folder_);
  fs::create_directories(folder_, error);
  if (error) throw machine_error("create", folder_, error.value());
  acquire();
}

void FolderLock::acquire() {
  const fs::path path = folder_ / kName;
  do {
    file_.reset(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
    if (!file_) throw machine_error("write", path, errno);
    if (flock(file_.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) throw machine_error("lock", path, errno);
      const std::string who = holder(file_.get());
      throw MachineError("output folder in use: {}\n  by {}\n  wait for that run, stop it, or set another output_dir",
                         folder_.string(), who.empty() ? "another process" : who);
    }
  } while (!is_still_at(file_.get(), path));
  sign(file_.get());
}

FolderLock::~FolderLock() {
  if (!file_ || folder_is_used() || !is_still_at(file_.get(), folder_ / kName)) return;
  unlink((folder_ / kName).c_str());
  if (first_created_.empty()) return;
  // rmdir refuses a folder with anything in it, so this stops at the first one that is used.
  for (fs::path part = folder_; rmdir(part.c_str()) == 0 && part != first_created_;) part = part.parent_path();
}

bool FolderLock::folder_is_used() const {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_, error)) {
    if (entry.path().filename() != kName) return true;
  }
  return false;
}

FolderOwner::FolderOwner(fs::path folder) : folder_(std::move(folder)), who_(holder(folder_)) {}

std::string FolderOwner::taken_over() const {
  const std::string now = holder(folder_);
  if (now.empty() || now == who_) return "";
  return fmt::format(
      "output folder taken over: {}\n  by {}\n  while this run ({}) was paused or cut off; this run no longer writes "
      "to it",
      folder_.string(), now, who_);
}

pid_t process_using(const fs::path& folder) {
  const FileDescriptor file(open((folder / kName).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file || flock(file.get(), LOCK_SH | LOCK_NB) == 0) return 0;
  const std::string who = holder(file.get());
  int pid = 0;
  char host[65] = "";
  const std::string own = host_name();
  if (std::sscanf(who.c_str(), "process %d on %64s", &pid, host) != 2 || std::string(host) != own || pid < 1)
    throw MachineError("{} is in use by {}, which is not a process of this machine ({})", folder.string(), who, own);
  return pid;
}

}  // namespace trainer
