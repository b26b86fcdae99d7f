#pragma once

#include "models/gpt2/config.h"
#include "models/nn/layer_norm_module.h"
#include "models/nn/linear.h"

namespace trainer::models::gpt2 {

/// Causal attention; one layer computes queries, keys and values.
class GPT2Attention : public nn::Module {
 public:
  GPT2Attention(const GPT2Config& config, int64_t layer);
  /// x [T, D] → [T, D].
  nn::Rows operator()(const nn::Rows& x, const nn::Pass& pass) { return Module::operator()({x}, pass)[0]; }

 protected:
  nn::RowsList forward(const nn::RowsList& inputs, const nn::Pass& pass) override;

 private:
  GPT2Config config_;
  int64_t layer_;
  nn::Slot<nn::Linear> c_attn_, c_proj_;
};

/// c_proj(act(c_fc x)).
class GPT2MLP : public nn::Module {
 public:
  explicit GPT2MLP(const GPT2Config& config);
  nn::Rows operator()(const nn::Rows& x, const nn::Pass& pass) { return Module::operator()({x}, pass)[0]; }

 protected:
  nn::RowsList forward(const nn::RowsList& inputs, const nn::Pass& pass) override;

 private:
  nn::Activation activation_;
  nn::Slot<nn::Linear> c_fc_, c_proj_;
};

/// x + dropout(attention(norm(x))), then x + dropout(mlp(norm(x))). x [T, D] fp32.
class GPT2Block : public nn::Module {
 public:
  GPT2Block(const GPT2Config& config, int64_t layer);

 protected:
  nn::RowsList forward(const nn::RowsList& inputs, const nn::Pass& pass) override;

 private:
  double dropout_;
  nn::Slot<nn::LayerNorm> ln_1_;
  nn::Slot<GPT2Attention> attn_;
  nn::Slot<nn::LayerNorm> ln_2_;
  nn::Slot<GPT2MLP> mlp_;
};

}  // namespace trainer::models::gpt2
