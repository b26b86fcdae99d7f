#pragma once

#include <optional>

#include "models/gemma/config.h"
#include "models/nn/linear.h"

namespace trainer::models::gemma {

/// "GemmaRMSNorm": scales by 1 + weight, and rounds only the result.
class RmsNorm : public nn::Module {
 public:
  RmsNorm(const Config& config, int64_t width);
  /// x [..., width] → the compute dtype.
  nn::Rows operator()(const nn::Rows& x, const nn::Pass& pass);

 protected:
  nn::RowsList forward(const nn::RowsList& inputs, const nn::Pass& pass) override;

 private:
  double eps_;
};

/// Causal attention with rotary positions, grouped heads, and by generation: soft-capped scores, a window, normalized
/// queries and keys.
class Attention : public nn::Module {
 public:
  Attention(const Config& config, int64_t layer);
  /// x [T, D], rope [T, head_dim] → [T, D].
  nn::Rows operator()(const nn::Rows& x, const nn::Rows& rope, const nn::Pass& pass) {
    return Module::operator()({x, rope}, pass)[0];
  }

 protected:
  nn::RowsList forward(const nn::RowsList& inputs, const nn::Pass& pass) override;

 private:
  /// x [T, heads * head_dim], normalized per head in Gemma 3, then rotated.
  at::Tensor placed(const nn::Rows& x, const std::optional<nn::Slot<RmsNorm>>& norm, const at::Tensor& rope,
                    const nn::Pass& pass) const;

  Config config_;
  int64_t layer_;
  nn::Slot<nn::Linear> q_proj_, k_proj_, v_proj_, o_proj_;
  std::optional<nn::Slot<RmsNorm>> q_norm_, k_norm_;
};

/// down(act(gate x) * up x).
class Mlp : public nn::Module {
 public:
  explicit Mlp(const Config& config);
  nn::Rows operator()(const nn::Rows& x, const nn::Pass& pass) { return Module::operator()({x}, pass)[0]; }

 protected:
  nn::RowsList forward(const nn::RowsList& inputs, const nn::Pass& pass) override;

 private:
  nn::Activation activation_;
  nn::Slot<nn::Linear> gate_proj_, up_proj_, down_proj_;
};

/// "GemmaDecoderLayer" and its successors: x + attention(norm(x)), then x + mlp(norm(x)); Gemma 2 and 3 also normalize
/// what attention and the MLP return. Inputs: x [T, D] fp32, the rotary table [T, head_dim], and in Gemma 3 that of
/// layers with a window. Output: x.
class DecoderLayer : public nn::Module {
 public:
  DecoderLayer(const Config& config, int64_t layer);

 protected:
  nn::RowsList forward(const nn::RowsList& inputs, const nn::Pass& pass) override;

 private:
  size_t rope_;  // index of the layer's rotary table among the inputs
  nn::Slot<Attention> self_attn_;
  nn::Slot<Mlp> mlp_;
  nn::Slot<RmsNorm> input_layernorm_, post_attention_layernorm_;
  std::optional<nn::Slot<RmsNorm>> pre_feedforward_layernorm_, post_feedforward_layernorm_;
};

}  // namespace trainer::models::gemma
