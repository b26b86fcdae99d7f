#include "engine/base/file_operations.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <optional>

namespace trainer::file_operations {
namespace fs = std::filesystem;
namespace {

enum class Needs { kSpace, kNothing };

std::mutex mutex;  // guards what follows
Fault planned;
bool armed = false, full = false;
std::optional<Pretend> lack;
int64_t count = 0;
thread_local int scopes = 0;

/// Counts an operation. Returns the errno that it must fail with, 0, or -1: the process gets a signal during it.
int next_operation(Needs needs) {
  if (scopes == 0) return 0;
  const std::lock_guard lock(mutex);
  ++count;
  if (full && needs == Needs::kSpace) return planned.error;
  if (!armed || count != planned.operation) return 0;
  if (planned.error == 0) return -1;
  full = planned.lasting;
  return planned.error;
}

/// Whether the operation may proceed; false with errno set when it must fail.
bool allowed(Needs needs) {
  const int fault = next_operation(needs);
  if (fault == 0) return true;
  if (fault < 0) raise(planned.signal);
  if (fault > 0) errno = fault;
  return fault < 0;
}

}  // namespace

void plan_fault(const Fault& fault) {
  const std::lock_guard lock(mutex);
  planned = fault;
  armed = full = false;
}

void pretend(Pretend what) {
  const std::lock_guard lock(mutex);
  lack = what;
}

void begin_save(int64_t number) {
  const std::lock_guard lock(mutex);
  count = 0;
  if (armed) planned.operation = 0;  // it strikes once
  armed = planned.operation > 0 && number >= planned.save;
  full = false;
}

int64_t operations() {
  const std::lock_guard lock(mutex);
  return count;
}

SaveScope::SaveScope() {
  ++scopes;
}

SaveScope::~SaveScope() {
  --scopes;
}

int create(const fs::path& path) {
  if (!allowed(Needs::kSpace)) return -1;
  return ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
}

ssize_t write(int fd, const void* bytes, size_t size) {
  const int fault = next_operation(Needs::kSpace);
  if (fault < 0) {
    [[maybe_unused]] const ssize_t torn = planned.signal == SIGKILL ? ::write(fd, bytes, size / 2) : 0;
    raise(planned.signal);
  }
  if (fault > 0) {
    errno = fault;
    return -1;
  }
  return ::write(fd, bytes, size);
}

int reserve(int fd, int64_t bytes) {
  if (!allowed(Needs::kSpace)) return -1;
  if (bytes == 0 || fallocate(fd, 0, 0, bytes) == 0) return 0;
  return errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL ? 0 : -1;
}

int sync(int fd) {
  return allowed(Needs::kNothing) ? fsync(fd) : -1;
}

int close(int fd) {
  const bool good = allowed(Needs::kNothing);
  const int error = errno;
  const int result = ::close(fd);  // in any case, to not leak the descriptor
  if (!good) errno = error;
  return good ? result : -1;
}

int rename(const fs::path& from, const fs::path& to) {
  if (!allowed(Needs::kNothing)) return -1;
  std::error_code ignored;
  if (lack != Pretend::kNoFolders || !fs::is_directory(fs::symlink_status(from, ignored)))
    return ::rename(from.c_str(), to.c_str());
  errno = EMFILE;
  return -1;
}

int exchange(const fs::path& one, const fs::path& other) {
  if (!allowed(Needs::kNothing)) return -1;
  if (!lack) return renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE);
  errno = EINVAL;
  return -1;
}

int remove_file(const fs::path& path) {
  return allowed(Needs::kNothing) ? ::unlink(path.c_str()) : -1;
}

int remove_tree(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(folder, error))) return 0;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const bool is_folder = entry.is_directory(error) && !entry.is_symlink(error);
    if ((is_folder ? remove_tree(entry.path()) : remove_file(entry.path())) != 0) return -1;
  }
  return allowed(Needs::kNothing) ? ::rmdir(folder.c_str()) : -1;
}

int duplicate(const fs::path& from, const fs::path& to) {
  if (!allowed(Needs::kSpace)) return -1;
  if (::link(from.c_str(), to.c_str()) == 0) return 0;
  if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS && errno != EMLINK) return -1;
  std::error_code error;
  if (fs::copy_file(from, to, error)) return 0;
  errno = error.value();
  return -1;
}

int make_folder(const fs::path& path) {
  return allowed(Needs::kSpace) ? ::mkdir(path.c_str(), 0777) : -1;
}

int make_link(const std::string& target, const fs::path& path) {
  return allowed(Needs::kSpace) ? ::symlink(target.c_str(), path.c_str()) : -1;
}

}  // namespace trainer::file_operations
