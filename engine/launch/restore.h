// Before the ranks start, the leader gets the newest checkpoint that any machine holds whole: Note [Replicas].
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engine/launch/holdings.h"
#include "engine/launch/machines.h"
#include "engine/launch/signals.h"

namespace trainer::launch {

/// How an attempt starts.
enum class Beginning { kFromScratch, kNewest, kNamed };

/// What the leader fetches: only the newest checkpoint, or also the older ones, one of which may be the best.
enum class Fetch { kNewest, kAll };

struct Restored {
  Holdings own;
  std::vector<Holdings> others{};  // of machines.others()
  bool fetched = false;            // `own`.newest comes from another machine

  /// The highest leader epoch of a checkpoint of any machine.
  int64_t highest_epoch() const;
};

/// Leader: every machine says what it holds, and the leader fetches what is newer than its own newest checkpoint. If a
/// copy fails, a warning says why, and the next best is used. `whole`: see holdings_of(). To be followed by
/// go_ahead(). Errors: ConfigError when the run is to start from scratch, but another machine holds checkpoints; those
/// of serve_until().
Restored restore_newest(const std::filesystem::path& folder, Beginning beginning, Fetch what, const std::string& whole,
                        Machines& machines, SignalQueue& signals);
/// Tells the followers that the attempt can begin, under this leader epoch, from the leader's `newest` checkpoint.
void go_ahead(int64_t leader_epoch, const Holdings& newest, Machines& machines);
/// Removes the checkpoints in `folder` that earlier leaders saved after the one with which a later leader continued:
/// that of `newest`. The run doesn't contain them.
void remove_abandoned(const std::filesystem::path& folder, const Holdings& newest);

/// Follower, whose number in the attempt is `machine`: sends the leader what it asks for until the leader goes ahead.
/// `why_not`: why this machine keeps no copies; "" if it does. Returns what it holds, without what was abandoned, and
/// the leader's epoch.
struct Helped {
  Holdings own;
  int64_t leader_epoch = 0;
};
Helped help_restore(const std::filesystem::path& folder, int machine, const std::string& why_not,
                    const std::string& whole, Machines& machines, SignalQueue& signals);

}  // namespace trainer::launch
