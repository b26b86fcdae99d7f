#include "engine/base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "engine/base/file_descriptor.h"
#include "engine/base/file_operations.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
namespace ops = file_operations;

const char* advice(int error) {
  switch (error) {
    case ENOSPC:
      return "the disk is full: free some space or use another folder";
    case EDQUOT:
      return "your quota is used up: delete files or use another folder";
    case EFBIG:
      return "the file is larger than this account (`ulimit -f`) or the file system allows: use another one";
    case EACCES:
    case EPERM:
      return "no permission: use another folder, or change its owner or mode";
    case EROFS:
      return "the file system is read-only: use another folder";
    case ENOENT:
      return "the folder does not exist or was removed: check the path";
    case ENOTDIR:
      return "a part of the path is a file: check the path";
    case ENAMETOOLONG:
      return "use a shorter path";
    case EMFILE:
    case ENFILE:
      return "too many open files: raise the limit with `ulimit -n`";
    case EIO:
      return "the disk reports an error: check it, or use another one";
    case ESTALE:
    case ENOTCONN:
      return "the network file system lost the folder: check the mount";
    case ENOSYS:
    case EOPNOTSUPP:
      return "this file system can't do that: use another one";
    case EEXIST:
    case ENOTEMPTY:
      return "the path already exists: move it away";
    default:
      return "check the folder, then run again";
  }
}

InputError input_error(const fs::path& path, std::string_view why) {
  return InputError("cannot read {}: {}", path.string(), why);
}

/// The hidden name of this process's unfinished version of a file.
fs::path temp_beside(const fs::path& path) {
  return folder_of(path) / fmt::format(".{}.{}.tmp", path.filename().string(), getpid());
}

/// Removes an unfinished file, unless keep() was called.
class RemoveUnlessKept {
 public:
  explicit RemoveUnlessKept(std::string path) : path_(std::move(path)) {}
  ~RemoveUnlessKept() {
    if (!path_.empty()) ops::remove_file(path_);
  }
  void keep() { path_.clear(); }

 private:
  std::string path_;
};

}  // namespace

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

void sync_path(const fs::path& path) {
  FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) throw machine_error("open", path, errno);
  // Some network file systems cannot sync a folder and return EINVAL; their rename is synchronous.
  if (ops::sync(file.get()) != 0 && errno != EINVAL) throw machine_error("sync to disk", path, errno);
}

void write_all(int fd, std::string_view content, const fs::path& path) {
  while (!content.empty()) {
    ssize_t count = ops::write(fd, content.data(), content.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw machine_error("write", path, errno);
    content.remove_prefix(static_cast<size_t>(count));
  }
}

MachineError machine_error(std::string_view action, const fs::path& path, int error) {
  return MachineError("cannot {} {}: {}\n  {}", action, path.string(), std::strerror(error), advice(error));
}

std::string read_file(const fs::path& path, int64_t limit) {
  FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a named pipe must not block us
  if (!file && (errno == EMFILE || errno == ENFILE || errno == ENOMEM)) throw machine_error("read", path, errno);
  if (!file) throw input_error(path, std::strerror(errno));
  struct stat about {};
  if (fstat(file.get(), &about) != 0) throw input_error(path, std::strerror(errno));
  if (!S_ISREG(about.st_mode))
    throw input_error(path, S_ISDIR(about.st_mode) ? "it is a folder" : "it is not a regular file");
  if (about.st_size > limit) {
    throw input_error(path, fmt::format("it has {} bytes, at most {} are allowed", about.st_size, limit));
  }
  std::string content(static_cast<size_t>(about.st_size), '\0');
  size_t size = 0;
  while (size < content.size()) {
    ssize_t count = read(file.get(), content.data() + size, content.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw input_error(path, std::strerror(errno));
    if (count == 0) break;  // it shrank meanwhile
    size += static_cast<size_t>(count);
  }
  content.resize(size);
  return content;
}

std::string first_line(const std::filesystem::path& path) {
  std::string line;
  std::ifstream in(path);
  std::getline(in, line);
  return line;
}

void publish_file(const fs::path& path, std::string_view content) {
  const fs::path temp = temp_beside(path);
  FileDescriptor file(ops::create(temp));
  if (!file) throw machine_error("write", path, errno);
  RemoveUnlessKept begun(temp);
  write_all(file.get(), content, path);
  if (ops::close(file.release()) != 0) throw machine_error("write", path, errno);
  publish_written(temp, path);
  begun.keep();
}

bool renew_file(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return true;
  const fs::path temp = temp_beside(path);
  RemoveUnlessKept copy(temp);
  if (!fs::copy_file(path, temp, fs::copy_options::overwrite_existing, error)) return false;
  if (ops::rename(temp, path) != 0) return false;
  copy.keep();
  return true;
}

void publish_written(const fs::path& temp, const fs::path& path) {
  sync_path(temp);
  if (ops::rename(temp, path) != 0) throw machine_error("publish", path, errno);
  sync_path(folder_of(path));
}

void check_writable(const fs::path& folder) {
  fs::path existing = folder;
  std::error_code ignored;
  while (!fs::exists(existing, ignored) && existing != folder_of(existing)) existing = folder_of(existing);
  std::string probe = (existing / ".trainer-probe.XXXXXX").string();
  FileDescriptor file(mkostemp(probe.data(), O_CLOEXEC));
  if (!file) throw machine_error("write into", folder, errno);
  unlink(probe.c_str());
}

}  // namespace trainer
