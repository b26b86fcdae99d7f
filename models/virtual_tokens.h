#pragma once

#include "models/model.h"

namespace trainer::models {

/// `batch` with `count` placeholders (ids -1, -2, …) in front of every sample's source, for a learned prompt
/// (adapters::PromptEmbedding); 0: unchanged. They add no loss: their causal labels are -100.
Batch with_virtual_tokens(Batch batch, int64_t count);

}  // namespace trainer::models
