#pragma once

#include "models/llama/attention.h"

namespace trainer::models::llama {

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

/// "LlamaDecoderLayer" and its counterparts: x + attention(norm(x)), then x + mlp(norm(x)).
/// Inputs: x [T, D] fp32 and the rotary table [T, head_dim]. Output: x.
class DecoderLayer : public nn::Module {
 public:
  DecoderLayer(const Config& config, int64_t layer);

 protected:
  nn::RowsList forward(const nn::RowsList& inputs, const nn::Pass& pass) override;

 private:
  nn::Slot<Attention> self_attn_;
  nn::Slot<Mlp> mlp_;
  nn::Slot<RmsNorm> input_layernorm_, post_attention_layernorm_;
};

}  // namespace trainer::models::llama
