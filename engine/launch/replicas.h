// This machine's part in keeping copies of checkpoints, over all attempts of a run: Note [Replicas].
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "engine/base/folder_lock.h"
#include "engine/config/plan/plan.h"
#include "engine/launch/leadership.h"
#include "engine/launch/replication.h"
#include "engine/launch/restore.h"
#include "engine/launch/run_status.h"
#include "engine/launch/signals.h"
#include "engine/launch/terms.h"

namespace trainer::launch {

class Replicas {
 public:
  explicit Replicas(const config::Plan& plan) : config_(plan.config) {}

  /// Before the ranks of an attempt start, on every machine alike: brings the leader the newest checkpoint, and makes
  /// its epoch the highest. `leads`: null on a follower. Returns what copies checkpoints during the attempt; null if
  /// nothing does, because one copy is enough or the machines share the folder. Errors: those of restore_newest().
  std::unique_ptr<Replication> begin(const Terms& terms, bool shares_folder, Leadership* leads, Machines& machines,
                                     SignalQueue& signals, RunStatus& status);
  /// A follower locks its folder, for its copies. Returns why that fails, or "".
  std::string hold_folder();
  /// A follower that is about to lead locks the folder as a leader does.
  void release_folder() { folder_.reset(); }
  /// After the attempt.
  void end(const Replication& replication);

 private:
  Beginning beginning(const Terms& terms) const;
  std::unique_ptr<Replication> lead(const Terms& terms, Leadership& leads, Machines& machines, SignalQueue& signals,
                                    RunStatus& status);

  const config::Config& config_;
  std::optional<FolderLock> folder_;  // a follower's
  std::string whole_;                 // a checkpoint here that needs no verification any more
  bool has_led_ = false, told_ = false;
};

}  // namespace trainer::launch
