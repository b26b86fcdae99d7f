// Diagnoses the ranks of a run from their boards.
#pragma once

#include <optional>
#include <vector>

#include "engine/launch/failure.h"
#include "engine/launch/rank_state.h"

namespace trainer::launch {

/// Ranks of this machine; in a run of `world_size` ranks the others are on other machines.
using RankStates = std::vector<RankState>;

/// Two ranks that called different collectives as the same number of their group: a bug in the engine.
std::optional<Failure> differing(const RankStates& ranks);
/// Whether there are two such ranks, and a third one that is on its way will show which of them is wrong.
bool will_differ(const RankStates& ranks);

/// A process that has not run for `seconds` while others did: stopped by a signal, or its machine swaps.
std::optional<Failure> frozen(const RankStates& ranks, int world_size, double seconds);

/// All ranks have waited for `seconds`, each for one that waits elsewhere or has ended: a bug in the engine.
std::optional<Failure> stuck(const RankStates& ranks, double seconds);

/// A rank that runs, waits for no other rank, and has made no progress within an update for `seconds`, while an update
/// usually takes `usual`. On a single machine also all ranks together, even if they wait. Not a rank that the kernel
/// holds, nor the others meanwhile.
std::optional<Failure> hung(const RankStates& ranks, int world_size, double seconds, double usual);

/// A rank that has not entered a collective in which others have waited for `seconds`.
std::optional<Failure> late(const RankStates& ranks, double seconds);

/// A rank without progress for `seconds` that the kernel holds now.
std::optional<Failure> held(const RankStates& ranks, double seconds);

}  // namespace trainer::launch
