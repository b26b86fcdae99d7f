// One run at a time in an output folder.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

#include "engine/base/file_descriptor.h"

namespace trainer {

/// Holds `folder`/.lock, creating the folder when it doesn't exist. The kernel lets go when the process dies in any
/// way, so a stale lock file never blocks; it stays, with the name of the last who held it. A folder that was created
/// here and is still empty at the end is removed again. Errors: MachineError when another process holds it (named), or
/// when the folder can't be written to.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  /// True when somebody has put a file into the folder besides the lock.
  bool folder_is_used() const;

 private:
  void acquire();

  std::filesystem::path folder_;
  std::filesystem::path first_created_;  // the topmost folder made here; "" when all were there
  FileDescriptor file_;
};

/// To notice that a folder has another owner. Where the folder is on another machine, a holder of the lock that stands
/// still for long (its machine is paused, or cut off) loses it, and does not know when it goes on.
class FolderOwner {
 public:
  /// Whoever holds the lock now, or was the last to.
  explicit FolderOwner(std::filesystem::path folder);

  /// "" as long as nobody else has taken the lock, and else what to tell of that.
  std::string taken_over() const;

 private:
  std::filesystem::path folder_;
  std::string who_;  // "" when nobody ever had a lock there
};

/// The number of the process that holds `folder`'s lock; 0 when nobody does. Errors: MachineError when it may run on
/// another machine, which is named.
pid_t process_using(const std::filesystem::path& folder);

}  // namespace trainer
