#include "models/t5/block.h"

#include <cmath>

#include "models/nn/rms_norm.h"

namespace trainer::models::t5 {
namespace {

nn::Init normal(const T5Config& c, int64_t fan) {
  return {nn::Init::kNormal, c.initializer_factor / std::sqrt(static_cast<double>(fan))};
}

}  // namespace

T5LayerNorm::T5LayerNorm(int64_t width, double eps) : Module("T5LayerNorm"), eps_(eps) {
  add_parameter("weight", {width}, {nn::Init::kConstant, 1});
}

nn::RowsList T5LayerNorm::with_input(const nn::Rows& x, const nn::Pass& pass) {
  return wrapped() ? Module::operator()({x}, pass) : forward({x}, pass);
}

nn::RowsList T5LayerNorm::forward(const nn::RowsList& in, const nn::Pass& pass) {
  const auto [norm, x] = nn::rms_norm_and_input(in[0].x, parameters().front().second->value, eps_, pass.compute);
  return {in[0].with(norm), in[0].with(x)};
}

T5LayerAttention::T5LayerAttention(const T5Config& c, T5Attention::Kind kind, bool owns_position_bias, int64_t block)
    : Module(kind == T5Attention::kCross ? "T5LayerCrossAttention" : "T5LayerSelfAttention"),
      dropout_(c.dropout_rate),
      attention_(*this, kind == T5Attention::kCross ? "EncDecAttention" : "SelfAttention", c, kind, owns_position_bias,
                 block),
      layer_norm_(*this, "layer_norm", c.d_model, c.layer_norm_epsilon) {}

nn::RowsList T5LayerAttention::operator()(const nn::Rows& x, const nn::Rows& position_bias, const nn::Rows& memory,
                                          const nn::Pass& pass) {
  return Module::operator()({x, position_bias, memory}, pass);
}

nn::RowsList T5LayerAttention::forward(const nn::RowsList& in, const nn::Pass& pass) {
  const nn::RowsList normed = layer_norm_->with_input(in[0], pass);
  const nn::RowsList attended = (*attention_)(normed[0], in[1], in[2], pass);
  const nn::DropoutRule rule = pass.dropout(path(), dropout_);
  return {in[0].with(nn::dropout_add(normed[1].x, attended[0].x, rule, in[0].layout)), attended[1]};
}

T5DenseReluDense::T5DenseReluDense(const T5Config& c)
    : Module(c.gated ? "T5DenseGatedActDense" : "T5DenseActDense"),
      activation_(c.activation),
      dropout_(c.dropout_rate),
      wi_(*this, c.gated ? "wi_0" : "wi", c.d_model, c.d_ff, false, normal(c, c.d_model)),
      up_(c.gated ? std::optional<nn::Slot<nn::Linear>>(std::in_place, *this, "wi_1", c.d_model, c.d_ff, false,
                                                        normal(c, c.d_model))
                  : std::nullopt),
      wo_(*this, "wo", c.d_ff, c.d_model, false, normal(c, c.d_ff)) {
  wo_->weight()->fp32_under_fp16 = true;  // T5 was trained in bf16: the hidden values can exceed fp16's 65504
}

nn::RowsList T5DenseReluDense::forward(const nn::RowsList& in, const nn::Pass& pass) {
  const nn::DropoutRule rule = pass.dropout(path(), dropout_, wi_->first_out());
  const nn::Rows x = up_ ? nn::share_gradient(in[0]) : in[0], hidden = (*wi_)(x, pass);
  return {(*wo_)(hidden.with(up_ ? nn::activate_gated(hidden.x, (**up_)(x, pass).x, activation_, rule, hidden.layout)
                                 : nn::activate(hidden.x, activation_, rule, hidden.layout)),
                 pass)};
}

T5LayerFF::T5LayerFF(const T5Config& c)
    : Module("T5LayerFF"),
      dropout_(c.dropout_rate),
      feed_forward_(*this, "DenseReluDense", c),
      layer_norm_(*this, "layer_norm", c.d_model, c.layer_norm_epsilon) {}

nn::RowsList T5LayerFF::forward(const nn::RowsList& in, const nn::Pass& pass) {
  const nn::RowsList normed = layer_norm_->with_input(in[0], pass);
  const nn::Rows part = (*feed_forward_)(normed[0], pass);
  return {in[0].with(nn::dropout_add(normed[1].x, part.x, pass.dropout(path(), dropout_), in[0].layout))};
}

T5Block::T5Block(const T5Config& c, bool decoder, int64_t index)
    : Module("T5Block"),
      self_attention_(*this, "layer.0", c, decoder ? T5Attention::kDecoderSelf : T5Attention::kEncoderSelf, index == 0,
                      index),
      cross_attention_(decoder ? std::optional<nn::Slot<T5LayerAttention>>(std::in_place, *this, "layer.1", c,
                                                                           T5Attention::kCross, false, index)
                               : std::nullopt),
      feed_forward_(*this, decoder ? "layer.2" : "layer.1", c) {}

nn::RowsList T5Block::forward(const nn::RowsList& in, const nn::Pass& pass) {
  const nn::RowsList attended = (*self_attention_)(in[0], in[1], {}, pass);
  const nn::Rows x = cross_attention_ ? (**cross_attention_)(attended[0], {}, in[2], pass)[0] : attended[0];
  return {(*feed_forward_)(x, pass), attended[1]};
}

}  // namespace trainer::models::t5
