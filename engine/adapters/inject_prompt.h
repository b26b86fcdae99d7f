#pragma once

#include "engine/adapters/inject.h"

namespace trainer::adapters {

/// Adds a learned prompt in front of every sample of a frozen model (of the encoder's samples, if there is an encoder)
/// by replacing its input embedding with a PromptEmbedding. The batch must hold the placeholders: see virtual_tokens.
Injected inject_prompt(models::Model& model, config::LoraConfig& options, const Encode& encode);

/// Number of placeholders (ids -1, -2, …) in front of every sample of a batch.
int64_t virtual_tokens(const config::LoraConfig& options);

}  // namespace trainer::adapters
