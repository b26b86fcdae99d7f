// What PEFT knows of a model by its config.json.
#pragma once

#include <string>
#include <vector>

#include "models/model.h"

namespace trainer::adapters {

/// PEFT's name of a task; "" where it has none (images).
std::string task_type(models::Task task);

/// The layers that IA3 scales when none are named, and which of them at their input.
struct Ia3Layers {
  std::vector<std::string> targets, feedforward;
};
/// Errors: ConfigError for a model type that PEFT has no table for.
Ia3Layers default_ia3_layers(const models::Model& model);

/// The sizes that prompts are made by.
struct PromptSizes {
  int64_t width = 0, heads = 0, layers = 0;
  int64_t submodules = 1;  // 2 for sequence to sequence: PEFT stores a prompt for the decoder too, and doesn't use it
};
PromptSizes prompt_sizes(const models::Model& model);
/// Those of a prefix: the width and heads of a block's keys, and the blocks that get one. Where PEFT's own guess
/// doesn't fit the model (heads whose width isn't the model's share, more blocks in the decoder), they are what would.
PromptSizes prefix_sizes(const models::Model& model);

}  // namespace trainer::adapters
