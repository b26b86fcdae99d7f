#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/config/sections.h"
#include "models/model.h"

namespace trainer::adapters {

/// A tensor of adapter_model.safetensors, and how it is made out of parameters.
struct FileTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<std::string> parameters;  // by name
  std::function<at::Tensor(const std::vector<at::Tensor>&)> make;
};

/// What an adapter file holds for a model with adapters: every trained parameter as it is, except for a decomposed
/// start (see Note [Decomposed start]) and for a prompt that a network makes, of which the prompt is kept only.
std::vector<FileTensor> adapter_file(models::Model& model, const config::LoraConfig& options);

}  // namespace trainer::adapters
