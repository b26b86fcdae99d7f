// A folder of tests/golden with one model, one batch, and another implementation's results for them.
#pragma once

#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "engine/tensorfile/tensor_folder.h"
#include "models/registry.h"

namespace trainer::testing {

/// Text of a file under tests/golden.
std::string golden_text(const std::string& path);

struct FamilyCase {
  /// `name`, for example "gpt2/causal".
  FamilyCase(const std::string& name, models::Task task);

  /// The model of `config`, with the folder's values, all trainable; `config` may differ from the folder's in keys that
  /// don't change shapes.
  std::unique_ptr<models::Model> build(const nlohmann::json& config) const;
  /// Samples [first, last) of the batch, with their sample indices in the whole batch.
  models::Batch samples(size_t first, size_t last) const;
  models::Batch all() const { return samples(0, batch["samples"].size()); }

  models::Task task;
  nlohmann::json config, batch, expected;
  tensorfile::TensorFolder weights;
  tensorfile::SafetensorsFile tensors;
};

/// ||a - b|| / ||b|| in fp64.
double distance(const at::Tensor& a, const at::Tensor& b);

}  // namespace trainer::testing
