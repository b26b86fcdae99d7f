#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "models/nn/config_reader.h"

namespace trainer::nn {

/// Options of rotary position embeddings: `rope_parameters` of config.json.
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
  std::optional<double> attention_factor;            // yarn, longrope; default: by formula
  std::vector<double> short_factor, long_factor;     // longrope [head_dim / 2]
  double turned = 1;  // proportional: the fraction of a head that rotates (partial_rotary_factor)

  /// Maximum tokens per sample; 0: unlimited. linear and yarn stretch config.json's value, which in published folders
  /// is the pre-training length (Vicuna's, Qwen's); for longrope and llama3 the value is already stretched.
  int64_t reach() const;
};

/// Reads `rope_parameters`, or its names before transformers 5: `rope_theta` and `rope_scaling`.
RopeOptions read_rope(ConfigReader& reader, int64_t max_positions, int64_t head_dim,
                      double default_theta = RopeOptions().theta);

/// The value of `rope_parameters`.
nlohmann::json rope_json(const RopeOptions& options);

/// The types of layers in `layer_types` and `rope_parameters`.
inline constexpr const char* kFullLayers = "full_attention";
inline constexpr const char* kSlidingLayers = "sliding_attention";

/// Rotary positions that differ between layers with full and with sliding-window attention (Gemma 3).
struct RopeByLayer {
  RopeOptions full{.theta = 1e6}, sliding{};
};
/// Reads `rope_parameters` by layer type, or its names before transformers 5: `rope_theta` and `rope_scaling` of full
/// layers, `rope_local_base_freq` of the others.
RopeByLayer read_rope_by_layer(ConfigReader& reader, int64_t max_positions, int64_t head_dim);
nlohmann::json rope_json(const RopeByLayer& options);

}  // namespace trainer::nn
