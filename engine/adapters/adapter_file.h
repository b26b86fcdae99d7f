#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/config/sections.h"
#include "models/model.h"

namespace trainer::adapters {

/// A tensor of adapter_model.safetensors, and how to compute it from parameters.
struct FileTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<std::string> parameters;  // names
  std::function<at::Tensor(const std::vector<at::Tensor>&)> make;
};

/// The contents of an adapter file: every trained parameter unchanged, with two exceptions. A decomposed start is
/// doubled (see Note [Decomposed start]), and for a prompt computed by a network only the prompt is saved.
std::vector<FileTensor> adapter_file(models::Model& model, const config::LoraConfig& options);

}  // namespace trainer::adapters
