#pragma once

#include "engine/adapters/inject.h"

namespace trainer::adapters {

/// A learnt prompt in front of every sample of a frozen model (of its encoder's samples, where it has one): its input
/// embedding is swapped for a PromptEmbedding. The batch must hold the placeholders: see virtual_tokens.
Injected inject_prompt(models::Model& model, config::LoraConfig& options, const Encode& encode);

/// How many placeholders (ids -1, -2, …) stand in front of every sample of a batch.
int64_t virtual_tokens(const config::LoraConfig& options);

}  // namespace trainer::adapters
