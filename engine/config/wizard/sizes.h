// Models to build from scratch, in several sizes.
#pragma once

#include <string>
#include <vector>

#include "engine/config/wizard/aim.h"
#include "engine/config/wizard/machine.h"

namespace trainer::config {

struct ModelSize {
  std::string name;    // "small"
  std::string config;  // its config.json, without a vocabulary size
};

/// From small to large.
const std::vector<ModelSize>& sizes_of(Goal goal);

/// Bytes of weights, gradients and AdamW's state, in fp32, of a model with this many parameters.
int64_t bytes_to_train(int64_t parameters);

/// The bytes that the ranks of `config` on this machine have for a model's weights, gradients and optimizer state,
/// which leaves a quarter of the memory for activations and everything else; 0: unknown.
int64_t bytes_for_model(const Config& config, const Machine& machine);

}  // namespace trainer::config
