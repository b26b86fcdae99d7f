#pragma once

#include <cstdint>
#include <vector>

#include "models/model.h"

namespace trainer::worker {

/// A batch of one sample that is given as token ids. `labels` only matter as the tokens that a decoder reads, so only
/// seq2seq_lm needs them.
models::Batch token_batch(std::vector<int32_t> source, std::vector<int32_t> labels, models::Task task);

}  // namespace trainer::worker
