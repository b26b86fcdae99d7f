#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "models/nn/config_reader.h"

namespace trainer::nn {

/// How rotary positions are spread: `rope_parameters` of config.json.
struct RopeOptions {
  enum Kind { kDefault, kLinear, kDynamic, kYarn, kLongrope, kLlama3, kProportional } kind = kDefault;
  double theta = 10000;
  double factor = 1;
  int64_t max_positions = 2048;                      // max_position_embeddings
  int64_t original_positions = 2048;                 // yarn, longrope, llama3: of the pre-training
  double low_freq_factor = 1, high_freq_factor = 4;  // llama3
  double beta_fast = 32, beta_slow = 1;              // yarn
  bool truncate = true;                              // yarn
  std::optional<double> mscale, mscale_all_dim;      // yarn
  std::optional<double> attention_factor;            // yarn, longrope: else by a formula
  std::vector<double> short_factor, long_factor;     // longrope [head_dim / 2]
  double turned = 1;  // proportional: the part of a head that turns (partial_rotary_factor)

  /// Tokens that a sample may have; 0: any number. linear and yarn stretch what config.json gives, which is the length
  /// of the pre-training in folders as they are published (Vicuna's, Qwen's); longrope and llama3 are stretched
  /// already.
  int64_t reach() const;
};

/// Reads `rope_parameters`, or what it was called before transformers 5: `rope_theta` and `rope_scaling`.
RopeOptions read_rope(ConfigReader& reader, int64_t max_positions, int64_t head_dim);

/// The value of `rope_parameters`.
nlohmann::json rope_json(const RopeOptions& options);

}  // namespace trainer::nn
