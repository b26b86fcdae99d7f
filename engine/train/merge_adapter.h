// Merges an adapter into its base model.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "engine/config/plan/plan.h"

namespace trainer::train {

struct MergeRequest {
  std::filesystem::path adapter;        // as plan_of_adapter takes it
  std::string base;                     // likewise
  std::filesystem::path output;         // must be missing or empty
  std::optional<at::ScalarType> dtype;  // of all weights; default: each weight's own in the base model
};

struct MergeResult {
  config::Plan plan;                  // of the adapter on its base model
  int64_t layers = 0;                 // with an adapter
  std::vector<std::string> replaced;  // weights that the adapter folder holds whole: modules_to_save, biases
  std::vector<std::string> untied;    // weights that were tied in the base model and differ now
  std::vector<std::string> left_out;  // weights of the base folder that the model doesn't use
};

/// Writes to `request.output` the model folder that computes what the base model computes with the adapter. Weights are
/// merged in fp32, one at a time, and then rounded to their dtype. The folder appears when it is complete.
/// Errors: those of plan_of_adapter; InputError when adapter and model don't fit together; ConfigError when the adapter
/// can't be merged or `output` isn't empty; MachineError.
MergeResult merge_adapter(const MergeRequest& request);

}  // namespace trainer::train
