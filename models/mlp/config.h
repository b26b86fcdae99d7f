#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/nn/feed_forward.h"
#include "models/registry.h"

namespace trainer::models::mlp {

/// config.json of a multilayer perceptron; the defaults are the network of PyTorch's MNIST example, 784-128-10.
struct MlpConfig {
  int64_t input_size = 784;                         // values per image
  std::vector<int64_t> hidden_sizes{128};           // widths of the hidden layers; may be empty
  std::vector<std::string> labels;                  // class names
  std::string activation = "relu";                  // after every layer but the last
  nn::Activation function = nn::Activation::kRelu;  // activation
  double dropout = 0;                               // after every activation
};

/// Throws InputError (ConfigError when the request is strict) that names every invalid value.
MlpConfig parse_config(const BuildRequest& request);

std::string config_json(const MlpConfig& config);

}  // namespace trainer::models::mlp
