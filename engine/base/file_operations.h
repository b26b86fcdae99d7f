// The system calls by which files are made, synced, renamed and removed, in one place where a test can let any one of
// them fail.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>

namespace trainer::file_operations {

// [Note Crash points] Whether a save that is cut short does harm depends on the operation at which it is. So a test
// does it at every one: `plan_fault` names the n-th operation of a save, at which the process dies (of SIGKILL, half of
// the bytes of a write being written) or which fails like a full disk. What isn't part of a save (logs, metrics) is not
// counted: an operation is, when its thread is in a `SaveScope`.

/// What is to go wrong.
struct Fault {
  int64_t save = 0;       // in the first save with this number or a later one …
  int64_t operation = 0;  // … its n-th operation, counted from 1
  int error = 0;          // what it fails with; 0: the process gets this signal there, and goes on if it can
  bool lasting = false;   // so do all later ones that take space on the disk
  int signal = 9;         // SIGKILL
};
void plan_fault(const Fault& fault);

/// A save begins: `number` grows from save to save (its step). Operations are counted anew.
void begin_save(int64_t number);
/// Operations of the newest save so far.
int64_t operations();

/// While it lives, its thread's operations belong to the save.
class SaveScope {
 public:
  SaveScope();
  ~SaveScope();
  SaveScope(const SaveScope&) = delete;
  SaveScope& operator=(const SaveScope&) = delete;
};

// Each returns what the system call does (-1 and errno when it fails).

/// Opens a file to be written, empty; made when it isn't there. Never follows a link.
int create(const std::filesystem::path& path);
ssize_t write(int fd, const void* bytes, size_t count);
/// Keeps space for the first `bytes` of a file, so that a full disk is known at once. 0 too where the file system
/// can't.
int reserve(int fd, int64_t bytes);
int sync(int fd);
int close(int fd);
int rename(const std::filesystem::path& from, const std::filesystem::path& to);
/// Two files or folders change their names.
int exchange(const std::filesystem::path& one, const std::filesystem::path& other);
/// A file or a link.
int remove_file(const std::filesystem::path& path);
/// A folder and all in it; 0 when there is none.
int remove_tree(const std::filesystem::path& folder);
int make_folder(const std::filesystem::path& path);
/// A symbolic link `path` to `target`.
int make_link(const std::string& target, const std::filesystem::path& path);

}  // namespace trainer::file_operations
