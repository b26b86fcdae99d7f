// Groups the samples of an update into the ranks' micro-batches, by length.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "data/sampler/range.h"

namespace trainer::data {

/// The micro-batches of every rank: [rank][micro-batch] → sample indices, ascending. All ranks have the same number.
using PackingPlan = std::vector<std::vector<std::vector<int64_t>>>;

/// The number of tokens of the sample at `position`.
using TokensOf = std::function<int64_t(int64_t position)>;

// Note [Even shares]
// Nothing is padded, so an update takes as long as the rank with the most tokens. Which rank computes which of an
// update's samples changes nothing but the order of additions. So each micro-batch gets as many samples as its slice
// would have, but such that all of them have similar numbers of tokens. With 4 samples of a few dozen tokens each, 8
// ranks then use 97 % of their time instead of 78 %. Samples of equal length keep their slices. All plans are pure
// functions of their arguments, so that ranks agree without communication.

/// By equal numbers of samples: the ranks' slices and micro-batches of data/sampler/shares.h.
PackingPlan plan_by_samples(Range positions, int64_t ranks, int64_t per_device);

/// Micro-batches of these sizes, with similar numbers of tokens, most similar at the same step on all ranks.
PackingPlan plan_evenly(Range positions, const TokensOf& tokens, int64_t ranks, int64_t per_device);

/// As few micro-batches of at most `max_tokens` tokens as first-fit finds, filled evenly, with micro-batches of similar
/// size at the same step on all ranks. A longer sample is alone.
PackingPlan plan_by_tokens(Range positions, const TokensOf& tokens, int64_t ranks, int64_t max_tokens);

/// The fraction of the token capacity that is used: in every micro-batch, ranks wait for the one with the most tokens.
/// 1 for one rank.
double packing_efficiency(const PackingPlan& plan, const TokensOf& tokens);

}  // namespace trainer::data
