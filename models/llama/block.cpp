#include "models/llama/block.h"

#include <ATen/TensorOperators.h>

namespace trainer::models::llama {

Mlp::Mlp(const Config& c)
    : Module(c.dialect.prefix + "MLP"),
      activation_(c.activation),
      gate_proj_(*this, "gate_proj", c.hidden_size, c.intermediate_size, c.mlp_bias, c.init()),
      up_proj_(*this, "up_proj", c.hidden_size, c.intermediate_size, c.mlp_bias, c.init()),
      down_proj_(*this, "down_proj", c.intermediate_size, c.hidden_size, c.mlp_bias, c.init()) {}

nn::RowsList Mlp::forward(const nn::RowsList& in, const nn::Pass& pass) {
  const nn::Rows gate = (*gate_proj_)(in[0], pass), up = (*up_proj_)(in[0], pass);
  return {(*down_proj_)(gate.with(nn::activate_gated(gate.x, up.x, activation_, {}, gate.layout)), pass)};
}

DecoderLayer::DecoderLayer(const Config& c, int64_t layer)
    : Module(c.dialect.prefix + "DecoderLayer"),
      rope_(c.rope_by_layer && c.windowed[layer] ? 2 : 1),
      self_attn_(*this, "self_attn", c, layer),
      mlp_(*this, "mlp", c),
      input_layernorm_(*this, "input_layernorm", c, c.hidden_size),
      post_attention_layernorm_(*this, "post_attention_layernorm", c, c.hidden_size) {
  if (!c.norms_outputs) return;
  pre_feedforward_layernorm_.emplace(*this, "pre_feedforward_layernorm", c, c.hidden_size);
  post_feedforward_layernorm_.emplace(*this, "post_feedforward_layernorm", c, c.hidden_size);
}

nn::RowsList DecoderLayer::forward(const nn::RowsList& in, const nn::Pass& pass) {
  const nn::Rows attended = (*self_attn_)((*input_layernorm_)(in[0], pass), in[rope_], pass);
  if (!pre_feedforward_layernorm_) {
    const nn::Rows x = in[0].with(in[0].x + attended.x);
    return {x.with(x.x + (*mlp_)((*post_attention_layernorm_)(x, pass), pass).x)};
  }
  const nn::Rows x = in[0].with(in[0].x + (*post_attention_layernorm_)(attended, pass).x);
  const nn::Rows fed = (*mlp_)((**pre_feedforward_layernorm_)(x, pass), pass);
  return {x.with(x.x + (**post_feedforward_layernorm_)(fed, pass).x)};
}

}  // namespace trainer::models::llama
