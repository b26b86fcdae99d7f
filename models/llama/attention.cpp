#include "models/llama/attention.h"

#include <ATen/TensorOperators.h>

#include "models/nn/rms_norm.h"
#include "models/nn/rope.h"
#include "models/nn/self_attention.h"

namespace trainer::models::llama {

RmsNorm::RmsNorm(const Config& c, int64_t width)
    : Module(c.dialect.prefix + "RMSNorm"), eps_(c.rms_norm_eps), adds_one_(c.norms_add_one) {
  add_parameter("weight", {width}, {nn::Init::kConstant, adds_one_ ? 0.0 : 1.0});
}

nn::RowsList RmsNorm::with_input(const nn::Rows& x, const nn::Pass& pass) {
  return wrapped() ? Module::operator()({x}, pass) : forward({x}, pass);
}

nn::RowsList RmsNorm::forward(const nn::RowsList& in, const nn::Pass& pass) {
  const at::Tensor& weight = parameters().front().second->value;
  const auto [norm, x] =
      nn::rms_norm_and_input(in[0].x, adds_one_ ? weight.to(at::kFloat) + 1 : weight, eps_, pass.compute);
  return {in[0].with(norm), in[0].with(x)};
}

Attention::Attention(const Config& c, int64_t layer)
    : Module(c.dialect.prefix + "Attention"),
      config_(c),
      layer_(layer),
      q_proj_(*this, "q_proj", c.hidden_size, c.heads * c.head_dim, c.qkv_bias, c.init()),
      k_proj_(*this, "k_proj", c.hidden_size, c.kv_heads * c.head_dim, c.qkv_bias, c.init()),
      v_proj_(*this, "v_proj", c.hidden_size, c.kv_heads * c.head_dim, c.qkv_bias, c.init()),
      o_proj_(*this, "o_proj", c.heads * c.head_dim, c.hidden_size, c.output_bias, c.init()) {
  if (!c.dialect.qk_norm) return;
  q_norm_.emplace(*this, "q_norm", c, c.head_dim);
  k_norm_.emplace(*this, "k_norm", c, c.head_dim);
}

at::Tensor Attention::placed(const nn::Rows& x, const std::optional<nn::Slot<RmsNorm>>& norm, const at::Tensor& rope,
                             const nn::Pass& pass) const {
  at::Tensor placed = x.x;
  if (norm) {
    const nn::Rows heads = x.with(x.x.unflatten(1, {-1, config_.head_dim}));
    placed = (**norm)(heads, pass).x.view(x.x.sizes());
  }
  return config_.rotates(layer_) ? nn::rotate(placed, rope) : placed;
}

nn::RowsList Attention::forward(const nn::RowsList& in, const nn::Pass& pass) {
  const nn::Rows x = nn::share_gradient(in[0]);
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

}  // namespace trainer::models::llama
