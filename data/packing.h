// Which samples of an update a rank takes together, by their lengths.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "data/range.h"

namespace trainer::data {

/// The micro-batches of every rank: [rank][micro-batch] → positions of samples, ascending. All ranks have as many.
using PackingPlan = std::vector<std::vector<std::vector<int64_t>>>;

/// Samples in equal numbers: the shares and micro-batches of data/shares.h.
PackingPlan plan_by_samples(Range positions, int64_t ranks, int64_t per_device);

/// As few micro-batches of at most `max_tokens` tokens as first-fit finds, filled evenly, those of like size side by
/// side on the ranks. A longer sample is alone. A pure function of its arguments, so that ranks agree without talking.
PackingPlan plan_by_tokens(Range positions, const std::function<int64_t(int64_t position)>& tokens, int64_t ranks,
                           int64_t max_tokens);

/// Tokens that are learnt from for each that the machine has time for: ranks wait for the one with most tokens in every
/// micro-batch. 1 for one rank.
double packing_efficiency(const PackingPlan& plan, const std::function<int64_t(int64_t position)>& tokens);

}  // namespace trainer::data
