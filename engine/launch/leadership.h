// What only the leading machine of a run does: it owns the output folder, and reports to people and servers.
#pragma once

#include <optional>
#include <string>

#include "engine/base/folder_lock.h"
#include "engine/config/plan/plan.h"
#include "engine/launch/outcome.h"
#include "engine/launch/tracking.h"

namespace trainer::launch {

class Leadership {
 public:
  /// Checks the keys of signed checkpoints, locks the output folder and starts the tracking of the run. Errors:
  /// ConfigError, before anything is started or written; FolderInUse when another machine leads, or another run is in
  /// the folder; MachineError.
  explicit Leadership(const config::Plan& plan);

  const FolderOwner& owner() const { return owner_; }
  int64_t epoch() const { return lock_.epoch(); }
  /// Between attempts: the epoch becomes higher than `above`, that of a checkpoint from another machine.
  void raise_epoch(int64_t above);
  /// Why this machine leads no longer; "" while it does. See Note [Leader epochs].
  std::string superseded() const;
  /// Writes into the lock file where the leader listens: see Note [Succession].
  void announce(const std::string& where) { lock_.add_line(where); }
  /// Whether there is nothing in the folder but its lock.
  bool wrote_nothing() const { return !lock_.folder_is_used(); }
  /// outcome.json and, unless no update was logged, report.html and, beside a saved model, its card. A failed write is
  /// only a warning: it must not hide the cause.
  void leave_files(const Outcome& outcome, const Kept& kept) const;
  /// Tells the tracking server how the run has ended.
  void end_tracking(int code) { tracking_->end(code); }

 private:
  const config::Config& config_;
  FolderLock lock_;
  FolderOwner owner_;
  std::optional<Tracking> tracking_;
};

}  // namespace trainer::launch
