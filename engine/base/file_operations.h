// The system calls that create, sync, rename and remove files, in one place where a test can make any of them fail.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>

namespace trainer::file_operations {

// Note [Crash points]
// Whether an interrupted save does harm depends on the operation that is interrupted. So a test interrupts every one:
// `plan_fault` selects the n-th operation of a save, at which the process dies (of SIGKILL, with half of a write's
// bytes written) or which fails as on a full disk. Only operations of a thread in a `SaveScope` are counted; those
// outside of a save (logs, metrics) are not.

/// The fault to inject.
struct Fault {
  int64_t save = 0;       // strikes in the first save with this number or a later one …
  int64_t operation = 0;  // … at its n-th operation, counted from 1
  int error = 0;          // the errno; 0: the process gets `signal` instead, and continues if it can
  bool lasting = false;   // all later operations that take disk space fail too
  int signal = 9;         // SIGKILL
};
void plan_fault(const Fault& fault);

/// A file system that can't do everything.
enum class Pretend {
  kNoExchange,  // NFS: exchange() fails with EINVAL
  kNoFolders    // gcsfuse: it renames no folders, rename() fails with EMFILE
};
/// From now on, this process sees such a file system.
void pretend(Pretend what);

/// Begins a save and restarts the count of operations. `number` (the save's step) grows from save to save.
void begin_save(int64_t number);
/// Operations of the newest save so far.
int64_t operations();

/// During its lifetime, its thread's operations belong to the save.
class SaveScope {
 public:
  SaveScope();
  ~SaveScope();
  SaveScope(const SaveScope&) = delete;
  SaveScope& operator=(const SaveScope&) = delete;
};

// Each returns the system call's result (-1 and errno when it fails).

/// Opens a file for writing; creates or truncates it. Never follows a link.
int create(const std::filesystem::path& path);
ssize_t write(int fd, const void* bytes, size_t count);
/// Reserves disk space for the first `bytes` of a file, so that a full disk is noticed at once. Also 0 when the file
/// system doesn't support it.
int reserve(int fd, int64_t bytes);
int sync(int fd);
int close(int fd);
int rename(const std::filesystem::path& from, const std::filesystem::path& to);
/// Exchanges the names of two files or folders.
int exchange(const std::filesystem::path& one, const std::filesystem::path& other);
/// Removes a file or a link.
int remove_file(const std::filesystem::path& path);
/// Removes a folder with its content; 0 when it doesn't exist.
int remove_tree(const std::filesystem::path& folder);
/// Gives the file `from` a second name, or copies it where the file system has no hard links.
int duplicate(const std::filesystem::path& from, const std::filesystem::path& to);
int make_folder(const std::filesystem::path& path);
/// Creates a symbolic link `path` to `target`.
int make_link(const std::string& target, const std::filesystem::path& path);

}  // namespace trainer::file_operations
