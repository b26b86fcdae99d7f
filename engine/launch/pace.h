// How long an update takes, according to a rank's board.
#pragma once

#include <optional>
#include <vector>

#include "engine/launch/rank_state.h"

namespace trainer::launch {

/// Measures one attempt, as the next one may have other machines. Time between two updates (evaluation, saving, reading
/// data) doesn't count.
class Pace {
 public:
  /// Records two states of the rank, `seconds` apart.
  void see(const RankState& before, const RankState& now, double seconds);

  /// The median in seconds of the newest updates; nothing until there are enough.
  std::optional<double> median() const;

 private:
  double seconds_ = 0;             // spent in the current update
  bool is_first_ = true;           // the current update is the first, which may be slow and is not counted
  std::vector<double> updates_{};  // seconds of each, newest last
};

}  // namespace trainer::launch
