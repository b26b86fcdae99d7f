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

/// "LlamaDecoderLayer" and its counterparts: x + attention(norm(x)), then x + mlp(norm(x)); Gemma 2 and 3 also
/// normalize what attention and the MLP return. Inputs: x [T, D] fp32, the rotary table [T, head_dim], and in Gemma 3
/// that of layers with a window. Output: x.
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
  std::optional<nn::Slot<RmsNorm>> pre_feedforward_layernorm_, post_feedforward_layernorm_;  // if norms_outputs
};

}  // namespace trainer::models::llama
