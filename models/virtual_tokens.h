#pragma once

#include "models/model.h"

namespace trainer::models {

/// `batch` with `count` placeholders (ids -1, -2, …) in front of every sample's source, for a learnt prompt
/// (adapters::PromptEmbedding); 0: as it is. Nothing is learnt at them: causal labels there are -100.
Batch with_virtual_tokens(Batch batch, int64_t count);

}  // namespace trainer::models
