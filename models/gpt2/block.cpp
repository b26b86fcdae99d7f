#include "models/gpt2/block.h"

#include <cmath>

#include "models/nn/self_attention.h"

namespace trainer::models::gpt2 {
namespace {

constexpr auto kStored = nn::Linear::Stored::kInOut;  // transformers' Conv1D

/// For the two layers per block that add to the residual stream.
nn::Init normal_residual(const GPT2Config& c) {
  return {nn::Init::kNormal, c.initializer_range / std::sqrt(2.0 * static_cast<double>(c.n_layer))};
}

}  // namespace

GPT2Attention::GPT2Attention(const GPT2Config& c, int64_t layer)
    : Module("GPT2Attention"),
      config_(c),
      layer_(layer),
      c_attn_(*this, "c_attn", c.n_embd, 3 * c.n_embd, true, c.weight_init(), kStored),
      c_proj_(*this, "c_proj", c.n_embd, c.n_embd, true, normal_residual(c), kStored) {}

nn::RowsList GPT2Attention::forward(const nn::RowsList& in, const nn::Pass& pass) {
  const auto qkv = (*c_attn_)(in[0], pass).x.chunk(3, 1);
  const int64_t heads = qkv[0].size(1) / config_.head_dim();
  nn::AttentionOptions options{.heads = heads, .causal = true};
  if (config_.scale_attn_weights) options.scale /= std::sqrt(static_cast<double>(config_.head_dim()));
  if (config_.scale_attn_by_inverse_layer_idx) options.scale /= static_cast<double>(layer_ + 1);
  options.dropout = pass.dropout(path(), config_.attn_pdrop, c_attn_->first_out() / config_.head_dim());
  const at::Tensor y = nn::self_attention(qkv[0], qkv[1], qkv[2], in[0].layout, options, pass, layer_);
  return {(*c_proj_)(in[0].with(y), pass)};
}

GPT2MLP::GPT2MLP(const GPT2Config& c)
    : Module("GPT2MLP"),
      activation_(c.activation),
      c_fc_(*this, "c_fc", c.n_embd, c.n_inner, true, c.weight_init(), kStored),
      c_proj_(*this, "c_proj", c.n_inner, c.n_embd, true, normal_residual(c), kStored) {}

nn::RowsList GPT2MLP::forward(const nn::RowsList& in, const nn::Pass& pass) {
  return {(*c_proj_)(in[0].with(nn::activate((*c_fc_)(in[0], pass).x, activation_, {}, in[0].layout)), pass)};
}

GPT2Block::GPT2Block(const GPT2Config& c, int64_t layer)
    : Module("GPT2Block"),
      dropout_(c.resid_pdrop),
      ln_1_(*this, "ln_1", c.n_embd, c.layer_norm_epsilon),
      attn_(*this, "attn", c, layer),
      ln_2_(*this, "ln_2", c.n_embd, c.layer_norm_epsilon),
      mlp_(*this, "mlp", c) {}

nn::RowsList GPT2Block::forward(const nn::RowsList& in, const nn::Pass& pass) {
  const auto add = [&](const nn::Rows& x, const nn::Rows& part, const std::string& place) {
    return x.with(nn::dropout_add(x.x, part.x, pass.dropout(place, dropout_), x.layout));
  };
  const nn::Rows x = add(in[0], (*attn_)((*ln_1_)(in[0], pass), pass), attn_->path() + ".resid_dropout");
  return {add(x, (*mlp_)((*ln_2_)(x, pass), pass), mlp_->path() + ".dropout")};
}

}  // namespace trainer::models::gpt2
