// Facts that PEFT derives from a model's config.json.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "models/model.h"

namespace trainer::adapters {

/// PEFT's name of a task; "" if it has none (images).
std::string task_type(models::Task task);

/// Errors: ConfigError for a family without default layers.
models::Model::Ia3Layers default_ia3_layers(const models::Model& model);

/// The sizes that determine a prompt.
struct PromptSizes {
  int64_t width = 0, heads = 0, layers = 0;
  int64_t submodules = 1;  // 2 for seq2seq: PEFT also stores a prompt for the decoder but doesn't use it
};
PromptSizes prompt_sizes(const models::Model& model);
/// The keys of adapter_config.json that all prompts and prefixes have.
nlohmann::json prompt_json(int64_t tokens, const PromptSizes& sizes);
/// The same for a prefix: the width and heads of a block's keys, and the number of blocks with a prefix. Where PEFT's
/// guess doesn't fit the model (head_dim not hidden_size / heads, more decoder blocks), these are the correct sizes.
PromptSizes prefix_sizes(const models::Model& model);

}  // namespace trainer::adapters
