// Update rules that depend on the names of parameters.
#pragma once

#include <string>

#include "engine/parallel/logical_tensor.h"

namespace trainer::optim {

/// Whether weight decay applies, by the Hugging Face Trainer's rule: biases and norms, recognized by name, are exempt.
/// (As there, T5's relative_attention_bias counts as a bias.)
bool decays(const std::string& parameter_name);

/// Whether it is an embedding's table, which bitsandbytes and Muon treat apart, by the name of its module.
bool is_embedding(const std::string& parameter_name);
/// Whether it is a matrix of a hidden layer: neither a vector, nor of an embedding or an output head, nor of an adapter
/// of these.
bool is_hidden_matrix(const parallel::LogicalTensor& parameter);

/// The options that differ between parameters in an update.
struct UpdateRule {
  bool decays = true;
  double rate = 1;  // multiple of the run's learning rate
  bool operator==(const UpdateRule&) const = default;
};

/// LoRA+ (Hayou et al. 2024) as in PEFT's create_loraplus_optimizer: the rate of B and of one-dimensional parameters is
/// `ratio` times the run's, whose current rate is `learning_rate`; adapters of embeddings always use 1e-6.
UpdateRule lora_plus_rule(const parallel::LogicalTensor& parameter, double ratio, double learning_rate);

}  // namespace trainer::optim
