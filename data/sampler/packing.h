// Groups the samples of an update into the ranks' micro-batches, by length.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "data/sampler/range.h"

namespace trainer::data {

/// The micro-batches of every rank: [rank][micro-batch] → sample indices, ascending. All ranks have the same number.
using PackingPlan = std::vector<std::vector<std::vector<int64_t>>>;

/// By equal numbers of samples: the ranks' slices and micro-batches of data/sampler/shares.h.
PackingPlan plan_by_samples(Range positions, int64_t ranks, int64_t per_device);

/// As few micro-batches of at most `max_tokens` tokens as first-fit finds, filled evenly, with micro-batches of similar
/// size at the same step on all ranks. A longer sample is alone. A pure function of its arguments, so that ranks agree
/// without communication.
PackingPlan plan_by_tokens(Range positions, const std::function<int64_t(int64_t position)>& tokens, int64_t ranks,
                           int64_t max_tokens);

/// The fraction of the token capacity that is used: in every micro-batch, ranks wait for the one with the most tokens.
/// 1 for one rank.
double packing_efficiency(const PackingPlan& plan, const std::function<int64_t(int64_t position)>& tokens);

}  // namespace trainer::data
