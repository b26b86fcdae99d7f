#include "models/gemma/block.h"

#include <ATen/TensorOperators.h>

#include "models/nn/rms_norm.h"
#include "models/nn/rope.h"
#include "models/nn/self_attention.h"

namespace trainer::models::gemma {

RmsNorm::RmsNorm(const Config& c, int64_t width) : Module(c.prefix() + "RMSNorm"), eps_(c.rms_norm_eps) {
  add_parameter("weight", {width}, {nn::Init::kConstant, 0});
}

nn::Rows RmsNorm::operator()(const nn::Rows& x, const nn::Pass& pass) {
  return wrapped() ? Module::operator()({x}, pass)[0] : forward({x}, pass)[0];
}

nn::RowsList RmsNorm::forward(const nn::RowsList& in, const nn::Pass& pass) {
  const at::Tensor factor = parameters().front().second->value.to(at::kFloat) + 1;
  return {in[0].with(nn::rms_norm(in[0].x, factor, eps_, pass.compute))};
}

Attention::Attention(const Config& c, int64_t layer)
    : Module(c.prefix() + "Attention"),
      config_(c),
      layer_(layer),
      q_proj_(*this, "q_proj", c.hidden_size, c.heads * c.head_dim, c.attention_bias, c.init()),
      k_proj_(*this, "k_proj", c.hidden_size, c.kv_heads * c.head_dim, c.attention_bias, c.init()),
      v_proj_(*this, "v_proj", c.hidden_size, c.kv_heads * c.head_dim, c.attention_bias, c.init()),
      o_proj_(*this, "o_proj", c.heads * c.head_dim, c.hidden_size, c.attention_bias, c.init()) {
  if (!c.qk_norm()) return;
  q_norm_.emplace(*this, "q_norm", c, c.head_dim);
  k_norm_.emplace(*this, "k_norm", c, c.head_dim);
}

at::Tensor Attention::placed(const nn::Rows& x, const std::optional<nn::Slot<RmsNorm>>& norm, const at::Tensor& rope,
                             const nn::Pass& pass) const {
  if (!norm) return nn::rotate(x.x, rope);
  const nn::Rows heads = x.with(x.x.unflatten(1, {-1, config_.head_dim}));
  return nn::rotate((**norm)(heads, pass).x.view(x.x.sizes()), rope);
}

nn::RowsList Attention::forward(const nn::RowsList& in, const nn::Pass& pass) {
  const nn::Rows& x = in[0];
  const at::Tensor q = placed((*q_proj_)(x, pass), q_norm_, in[1].x, pass);
  const at::Tensor k = placed((*k_proj_)(x, pass), k_norm_, in[1].x, pass);
  const at::Tensor v = (*v_proj_)(x, pass).x;
  const nn::AttentionOptions options{
      .heads = q.size(1) / config_.head_dim,
      .causal = true,
      .scale = config_.attention_scale(),
      .dropout = pass.dropout(path(), config_.attention_dropout, q_proj_->first_out() / config_.head_dim),
      .kv_heads = k.size(1) / config_.head_dim,
      .window = config_.windowed[layer_] ? config_.sliding_window : 0,
      .soft_cap = config_.attention_soft_cap};
  return {(*o_proj_)(x.with(nn::self_attention(q, k, v, x.layout, options, pass, layer_)), pass)};
}

Mlp::Mlp(const Config& c)
    : Module(c.prefix() + "MLP"),
      activation_(c.activation),
      gate_proj_(*this, "gate_proj", c.hidden_size, c.intermediate_size, false, c.init()),
      up_proj_(*this, "up_proj", c.hidden_size, c.intermediate_size, false, c.init()),
      down_proj_(*this, "down_proj", c.intermediate_size, c.hidden_size, false, c.init()) {}

nn::RowsList Mlp::forward(const nn::RowsList& in, const nn::Pass& pass) {
  const nn::Rows gate = (*gate_proj_)(in[0], pass), up = (*up_proj_)(in[0], pass);
  return {(*down_proj_)(gate.with(nn::activate_gated(gate.x, up.x, activation_, {}, gate.layout)), pass)};
}

DecoderLayer::DecoderLayer(const Config& c, int64_t layer)
    : Module(c.prefix() + "DecoderLayer"),
      rope_(c.rope_by_layer() && c.windowed[layer] ? 2 : 1),
      self_attn_(*this, "self_attn", c, layer),
      mlp_(*this, "mlp", c),
      input_layernorm_(*this, "input_layernorm", c, c.hidden_size),
      post_attention_layernorm_(*this, "post_attention_layernorm", c, c.hidden_size) {
  if (!c.norms_outputs()) return;
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

}  // namespace trainer::models::gemma
