// How llama.cpp names the models that it supports, and where it expects their weights otherwise than Hugging Face.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <nlohmann/json_fwd.hpp>

#include "models/model.h"

namespace trainer::gguf {

/// A family of models that llama.cpp can run.
struct Family {
  enum class Names { kLlama, kGemma, kGpt2 };

  std::string model_type;    // in config.json
  std::string architecture;  // llama.cpp's
  Names names = Names::kLlama;
  bool pairs_rotated = false;  // RoPE turns neighboring values of a head instead of its halves
  bool norms_add_one = false;  // Hugging Face stores a norm's weight without the 1 that is added to it
  bool tied_head = false;      // the output head is always the embedding
  bool biases = false;         // attention and MLP may have biases
};

/// The family of a model. Errors: ConfigError for one that llama.cpp doesn't support.
const Family& family_of(const models::Model& model);

/// The name of a weight in a GGUF file. Errors: ConfigError for a weight that the family has no place for.
std::string tensor_name(const Family& family, const std::string& name);

/// The weight (or a LoRA matrix with the same rows) in llama.cpp's layout. `config`: the model's config.json.
at::Tensor rows_for_rope(const Family& family, const nlohmann::json& config, const std::string& name,
                         const at::Tensor& values);

}  // namespace trainer::gguf
