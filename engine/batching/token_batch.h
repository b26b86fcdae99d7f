#pragma once

#include <cstdint>
#include <vector>

#include "models/model.h"

namespace trainer::batching {

/// A batch of samples that are given as token ids, at positions `first`, first + 1, … of the sample order. `labels`,
/// one list for each source, only matter as the tokens that a decoder reads; none: the batch is for generating.
models::Batch token_batch(std::vector<std::vector<int32_t>> sources, std::vector<std::vector<int32_t>> labels,
                          models::Task task, int64_t first = 0);

}  // namespace trainer::batching
