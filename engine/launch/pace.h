// How long an update takes, by what a rank's board shows.
#pragma once

#include <optional>
#include <vector>

#include "engine/launch/rank_state.h"

namespace trainer::launch {

/// Of one life: another one may have other machines. What comes between two updates (evaluation, saving, reading data)
/// doesn't count.
class Pace {
 public:
  /// The rank was as `before`, and `seconds` later it is as `now`.
  void see(const RankState& before, const RankState& now, double seconds);

  /// Seconds, of the newest updates; nothing until there are enough.
  std::optional<double> median() const;

 private:
  double seconds_ = 0;             // in the update that goes on
  bool is_first_ = true;           // so is that one, which may be slow, and is left out
  std::vector<double> updates_{};  // the newest last
};

}  // namespace trainer::launch
