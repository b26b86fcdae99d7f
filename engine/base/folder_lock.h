// Allows only one run at a time in an output folder.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

#include "engine/base/file_descriptor.h"

namespace trainer {

/// Holds `folder`/.lock, creating the folder when it doesn't exist. The kernel releases the lock however the process
/// dies, so a stale lock file never blocks; the file remains and names the last holder. A folder that was created here
/// and is still empty at the end is removed again. Errors: MachineError when another process, which the message names,
/// holds the lock, or when the folder can't be written to.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  /// True when the folder contains anything besides the lock.
  bool folder_is_used() const;

 private:
  void acquire();

  std::filesystem::path folder_;
  std::filesystem::path first_created_;  // the topmost folder created here; "" when all existed
  FileDescriptor file_;
};

/// Detects that a folder has a new owner. On a network file system, a process that is paused or cut off for long may
/// lose its lock and not know it when it continues.
class FolderOwner {
 public:
  /// Remembers the current or last holder of the lock.
  explicit FolderOwner(std::filesystem::path folder);

  /// "" while no other process has taken the lock, else the error message.
  std::string taken_over() const;

 private:
  std::filesystem::path folder_;
  std::string who_;  // "" when the folder never had a lock
};

/// The id of the process that holds `folder`'s lock; 0 when none does. Errors: MachineError when it may run on another
/// machine, which the message names.
pid_t process_using(const std::filesystem::path& folder);

}  // namespace trainer
