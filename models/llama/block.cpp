#include "models/llama/block.h"

#include "models/nn/dropout.h"

namespace trainer::models::llama {

Mlp::Mlp(const Config& c)
    : Module(c.dialect.prefix + "MLP"),
      activation_(c.activation),
      gate_proj_(*this, "gate_proj", c.hidden_size, c.intermediate_size, c.mlp_bias, c.init()),
      up_proj_(*this, "up_proj", c.hidden_size, c.intermediate_size, c.mlp_bias, c.init()),
      down_proj_(*this, "down_proj", c.intermediate_size, c.hidden_size, c.mlp_bias, c.init()) {}

nn::RowsList Mlp::forward(const nn::RowsList& in, const nn::Pass& pass) {
  const nn::Rows x = nn::share_gradient(in[0]), gate = (*gate_proj_)(x, pass), up = (*up_proj_)(x, pass);
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
  const auto add = [](const nn::Rows& x, const nn::Rows& part) {
    return x.with(nn::dropout_add(x.x, part.x, {}, x.layout));
  };
  const nn::RowsList normed = input_layernorm_->with_input(in[0], pass);
  const nn::Rows attended = (*self_attn_)(normed[0], in[rope_], pass);
  if (!pre_feedforward_layernorm_) {
    const nn::RowsList next = post_attention_layernorm_->with_input(add(normed[1], attended), pass);
    return {add(next[1], (*mlp_)(next[0], pass))};
  }
  const nn::Rows x = add(normed[1], (*post_attention_layernorm_)(attended, pass));
  const nn::RowsList next = (*pre_feedforward_layernorm_)->with_input(x, pass);
  return {add(next[1], (**post_feedforward_layernorm_)((*mlp_)(next[0], pass), pass))};
}

}  // namespace trainer::models::llama
