#pragma once

#include <optional>

#include "models/llama/config.h"
#include "models/nn/linear.h"

namespace trainer::models::llama {

/// "LlamaRMSNorm" and its counterparts in the related families. Gemma's scales by 1 + weight.
class RmsNorm : public nn::Module {
 public:
  RmsNorm(const Config& config, int64_t width);
  /// x [..., width] → the compute dtype.
  nn::Rows operator()(const nn::Rows& x, const nn::Pass& pass) { return with_input(x, pass)[0]; }
  /// The norm, and x for the layers beside it (nn::rms_norm_and_input).
  nn::RowsList with_input(const nn::Rows& x, const nn::Pass& pass);

 protected:
  nn::RowsList forward(const nn::RowsList& inputs, const nn::Pass& pass) override;

 private:
  double eps_;
  bool adds_one_;
};

/// Causal attention with rotary positions; several query heads may share one key/value head (GQA). By family, queries
/// and keys are normalized, scores soft-capped, or a window limits the keys.
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
  /// x [T, heads * head_dim], normalized per head if the family does that, then rotated if the layer does.
  at::Tensor placed(const nn::Rows& x, const std::optional<nn::Slot<RmsNorm>>& norm, const at::Tensor& rope,
                    const nn::Pass& pass) const;

  Config config_;
  int64_t layer_;
  nn::Slot<nn::Linear> q_proj_, k_proj_, v_proj_, o_proj_;
  std::optional<nn::Slot<RmsNorm>> q_norm_, k_norm_;
};

}  // namespace trainer::models::llama
