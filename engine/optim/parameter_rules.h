// Which parameters are updated how, told by their names.
#pragma once

#include <string>

#include "engine/parallel/logical_tensor.h"

namespace trainer::optim {

/// Whether weight decay applies, by the rule of the Hugging Face Trainer: not to biases and norms, told by their names.
/// (T5's relative_attention_bias counts as a bias there, and so here.)
bool decays(const std::string& parameter_name);

/// How one parameter differs from others in an update.
struct UpdateRule {
  bool decays = true;
  double rate = 1;  // how many times the learning rate of the run
  bool operator==(const UpdateRule&) const = default;
};

/// LoRA+ (Hayou et al. 2024) as PEFT's create_loraplus_optimizer has it: B and everything of one dimension learn
/// `ratio` times as fast; adapters of embeddings at a rate of their own, 1e-6 where that of the run is `learning_rate`.
UpdateRule lora_plus_rule(const parallel::LogicalTensor& parameter, double ratio, double learning_rate);

}  // namespace trainer::optim
