// What is wrong with the ranks of a run, by what their boards show.
#pragma once

#include <optional>
#include <vector>

#include "engine/launch/failure.h"
#include "engine/launch/rank_state.h"

namespace trainer::launch {

/// Ranks of this machine; in run of `world_size` ranks the others are on other machines.
using RankStates = std::vector<RankState>;

/// Two ranks that called different collectives as the same number of their group. Ours is the bug.
std::optional<Failure> differing(const RankStates& ranks);

/// A process that has not run for `seconds` while others did: stopped by a signal, or its machine swaps.
std::optional<Failure> frozen(const RankStates& ranks, int world_size, double seconds);

/// All ranks have waited for `seconds`, each for one that waits elsewhere or has ended. Ours is the bug.
std::optional<Failure> stuck(const RankStates& ranks, double seconds);

/// A rank that runs, waits for nobody, and has got no further within an update for `seconds`, where one usually takes
/// `usual`. On the only machine of a run also all of them, whoever waits.
std::optional<Failure> hung(const RankStates& ranks, int world_size, double seconds, double usual);

/// A rank that did not come to a collective in which others have waited for `seconds`.
std::optional<Failure> late(const RankStates& ranks, double seconds);

}  // namespace trainer::launch
