#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/config/sections/adapters.h"
#include "models/model.h"

namespace trainer::adapters {

/// A tensor of adapter_model.safetensors, and how to compute it from parameters.
struct FileTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<std::string> parameters;  // names
  std::function<at::Tensor(const std::vector<at::Tensor>&)> make;
};

/// The contents of an adapter file while they are collected.
struct AdapterFile {
  std::map<std::string, std::vector<std::string>> names;  // adapter_names
  std::vector<FileTensor> tensors;
  std::set<std::string> done;  // parameters that these cover

  /// Adds a parameter unchanged.
  void add(const nn::Parameter& parameter);
};

/// Computes a tensor from weights by their names in a network.
using EncodeWeights = std::function<at::Tensor(const std::map<std::string, at::Tensor>& weights)>;

/// Adds the prompt that `encode` computes from the weights of `network`; these weights are not written themselves.
void add_encoded(const nn::Module& network, std::vector<int64_t> shape, const EncodeWeights& encode, AdapterFile& file);

/// The contents of an adapter file: every trained parameter unchanged, unless its kind says otherwise.
std::vector<FileTensor> adapter_file(models::Model& model, const config::LoraConfig& options);

}  // namespace trainer::adapters
