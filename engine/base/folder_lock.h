// Allows only one run at a time in an output folder.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "engine/base/errors.h"
#include "engine/base/file_descriptor.h"

namespace trainer {

// Note [Leader epochs]
// A process that was paused or cut off for long may continue after another one has taken its place. So every holder of
// a folder's lock has a number, the leader epoch, that is higher than that of every holder before it (Lamport's and
// Kafka's way to fence a former leader; others call it a fencing token). It is part of the holder's name in the lock's
// file, of the seals between machines and of each checkpoint's manifest. Whoever meets a higher epoch than its own has
// been succeeded: a saver publishes nothing, a leader ends, and a follower doesn't join a leader of an older epoch than
// the last one it has followed.
inline constexpr int64_t kMostEpochs = int64_t{1} << 60;  // a higher number is damaged or malicious

/// Another process holds the lock of a folder.
class FolderInUse : public MachineError {
 public:
  using MachineError::MachineError;
};

/// Holds `folder`/.lock, creating the folder when it doesn't exist. The kernel releases the lock however the process
/// dies, so a stale lock file never blocks; the file remains and names the last holder. Each holder has a higher leader
/// epoch than all before it (Note [Leader epochs]). A folder that is created here is for this user only, and removed
/// again if it is still empty at the end. Errors: FolderInUse, which names the holder; MachineError when the folder
/// can't be written to.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  /// True when the folder contains anything besides the lock.
  bool folder_is_used() const;
  /// The name of this holder in the lock's file, with its epoch.
  const std::string& who() const { return who_; }
  int64_t epoch() const { return epoch_; }
  /// Makes the epoch higher than `above`, which changes who(). Errors: MachineError.
  void raise_epoch(int64_t above);
  /// Adds a line of at most kMostLine bytes to the lock's file, for those who wait for the lock. Errors: MachineError.
  static constexpr std::size_t kMostLine = 300;
  void add_line(const std::string& line);

 private:
  void acquire();
  void sign();

  std::filesystem::path folder_;
  std::filesystem::path first_created_;  // the topmost folder created here; "" when all existed
  FileDescriptor file_;
  int64_t epoch_ = 0;
  std::string who_, line_;
};

/// The line that the current or last holder of `folder`'s lock has added; "" if it has none.
std::string line_of_holder(const std::filesystem::path& folder);

/// Environment variable: the name of the folder's owner, of which the process is a part.
inline constexpr const char* kOwnerVariable = "TRAINER_FOLDER_OWNER";

/// Detects that a folder has a new owner. On a network file system, a process that is paused or cut off for long may
/// lose its lock and not know it when it continues.
class FolderOwner {
 public:
  /// The owner is `name`; if that is "", the current or last holder of the lock.
  explicit FolderOwner(std::filesystem::path folder, std::string name = "");
  /// That of kOwnerVariable, if it is set.
  static FolderOwner from_environment(std::filesystem::path folder);

  const std::string& name() const { return who_; }
  const std::filesystem::path& folder() const { return folder_; }
  /// The owner's leader epoch; 0 when its name says none.
  int64_t epoch() const;
  /// "" while no other process is known to have taken the lock, else the error message.
  std::string taken_over() const;
  /// Before a change in the folder. Errors: PeerError when another process has taken the lock; MachineError when that
  /// can't be known, because the lock file can't be read or names nobody.
  void require() const;

 private:
  std::string taken_over_by(const std::string& now) const;

  std::filesystem::path folder_;
  std::string who_;  // "" when the folder never had a lock
};

/// The id of the process that holds `folder`'s lock; 0 when none does. Errors: MachineError when it may run on another
/// machine, which the message names.
pid_t process_using(const std::filesystem::path& folder);

}  // namespace trainer
