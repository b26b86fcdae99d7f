// The state of a rank when its supervisor last looked at its board.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/rank_board.h"

namespace trainer::launch {

struct GroupState {
  CollectiveGroup group;
  uint64_t last = 0, done = 0;       // the newest call, and the newest that has returned
  std::vector<Collective> recent{};  // in the order of their numbers, the last of them `last`

  const Collective* call(uint64_t number) const;
  bool is_same_group(const GroupState& other) const {
    return group.name.view() == other.group.name.view() && group.members == other.group.members;
  }
};

struct RankState {
  int rank = 0;
  pid_t pid = 0;
  bool running = true;  // it has neither ended nor reported its end
  uint64_t beats = 0;   // 0: it hasn't reached its board yet
  int64_t step = -1;    // -1: before the first one
  std::string phase{};
  std::vector<GroupState> groups{};
  int waits_in = -1;  // index of the group it waits in; -1: it doesn't wait
  uint64_t waits_for = 0;
  bool hides_waits = false;  // it may wait without showing it
  // Seconds that the supervisor has observed it: waiting in this call, without a beat, and with beats but no progress.
  double waited = 0, silent = 0, still = 0;

  bool updates() const { return phase == kForwardAndBackward || phase == kOptimizerStep; }
  /// Whether its board is unchanged since `before`, apart from the beats.
  bool stands_as(const RankState& before) const;
  bool waits() const { return waits_in >= 0; }
  const GroupState& wait_group() const { return groups[static_cast<size_t>(waits_in)]; }
  const Collective* wait_call() const { return waits() ? wait_group().call(waits_for) : nullptr; }
  /// Its state of the same group; null when it hasn't created the group yet.
  const GroupState* find(const GroupState& group) const;
};

/// "all-gather 57 of 4096 float32 among all ranks (unit decoder.block.3)".
std::string text_of(const Collective& call, const GroupState& group);

/// The rank's current collective, else its last one; "" when it hasn't called any.
std::string collective_of(const RankState& state);
/// The unit of that collective; may be "".
std::string unit_of(const RankState& state);

/// "rank 1 (step 12, evaluating)".
std::string name_of(const RankState& state);

enum class Tense { kPresent, kPast };

/// Completes "it": "waits in all-gather 57 …", "computes, after …".
std::string doing_of(const RankState& state, Tense tense = Tense::kPresent);

/// What holds it in the kernel now, as uninterruptible() says it; "" if nothing does.
std::string held_of(const RankState& state);

/// "rank 1" or "ranks 0, 1 and 3".
std::string text_of(const std::vector<int>& ranks);

}  // namespace trainer::launch
