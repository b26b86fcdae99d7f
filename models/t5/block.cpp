#include "models/t5/block.h"

#include <cmath>

#include "models/nn/rms_norm.h"

namespace trainer::models::t5 {
namespace {

nn::Init normal(const T5Config& c, int64_t fan) {
  return {nn::Init::kNormal, c.initializer_factor / std::sqrt(static_cast<double>(fan))};
}

/// The rows that a module works on: its path tells which stack it is in.
const nn::LayoutPtr& rows_of(const nn::Module& module, const nn::Pass& pass) {
  return module.path().starts_with("encoder") ? pass.source : pass.target;
}

}  // namespace

T5LayerNorm::T5LayerNorm(int64_t width, double eps) : Module("T5LayerNorm"), eps_(eps) {
  add_parameter("weight", {width}, {nn::Init::kConstant, 1});
}

at::Tensor T5LayerNorm::operator()(const at::Tensor& x, const nn::Pass& pass) {
  return wrapped() ? Module::operator()({x}, pass)[0] : forward({x}, pass)[0];
}

nn::Tensors T5LayerNorm::forward(const nn::Tensors& in, const nn::Pass& pass) {
  return {nn::rms_norm(in[0], parameters().front().second->value, eps_, pass.compute)};
}

T5LayerAttention::T5LayerAttention(const T5Config& c, T5Attention::Kind kind, bool owns_position_bias, int64_t block)
    : Module(kind == T5Attention::kCross ? "T5LayerCrossAttention" : "T5LayerSelfAttention"),
      kind_(kind),
      dropout_(c.dropout_rate),
      attention_(*this, kind == T5Attention::kCross ? "EncDecAttention" : "SelfAttention", c, kind, owns_position_bias,
                 block),
      layer_norm_(*this, "layer_norm", c.d_model, c.layer_norm_epsilon) {}

nn::Tensors T5LayerAttention::operator()(const at::Tensor& x, const at::Tensor& position_bias, const at::Tensor& memory,
                                         const nn::Pass& pass) {
  return Module::operator()({x, position_bias, memory}, pass);
}

nn::Tensors T5LayerAttention::forward(const nn::Tensors& in, const nn::Pass& pass) {
  const nn::Tensors attended = (*attention_)((*layer_norm_)(in[0], pass), in[1], in[2], pass);
  return {nn::dropout_add(in[0], attended[0], pass.dropout(path(), dropout_), rows_of(*this, pass)), attended[1]};
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

nn::Tensors T5DenseReluDense::forward(const nn::Tensors& in, const nn::Pass& pass) {
  const nn::DropoutRule rule = pass.dropout(path(), dropout_, wi_->first_out());
  const nn::LayoutPtr& rows = rows_of(*this, pass);
  const at::Tensor hidden = (*wi_)(in[0], rows, pass);
  return {(*wo_)(up_ ? nn::activate_gated(hidden, (**up_)(in[0], rows, pass), activation_, rule, rows)
                     : nn::activate(hidden, activation_, rule, rows),
                 rows, pass)};
}

T5LayerFF::T5LayerFF(const T5Config& c)
    : Module("T5LayerFF"),
      dropout_(c.dropout_rate),
      feed_forward_(*this, "DenseReluDense", c),
      layer_norm_(*this, "layer_norm", c.d_model, c.layer_norm_epsilon) {}

nn::Tensors T5LayerFF::forward(const nn::Tensors& in, const nn::Pass& pass) {
  return {nn::dropout_add(in[0], (*feed_forward_)((*layer_norm_)(in[0], pass), pass), pass.dropout(path(), dropout_),
                          rows_of(*this, pass))};
}

T5Block::T5Block(const T5Config& c, bool decoder, int64_t index)
    : Module("T5Block"),
      self_attention_(*this, "layer.0", c, decoder ? T5Attention::kDecoderSelf : T5Attention::kEncoderSelf, index == 0,
                      index),
      cross_attention_(decoder ? std::optional<nn::Slot<T5LayerAttention>>(std::in_place, *this, "layer.1", c,
                                                                           T5Attention::kCross, false, index)
                               : std::nullopt),
      feed_forward_(*this, decoder ? "layer.2" : "layer.1", c) {}

nn::Tensors T5Block::forward(const nn::Tensors& in, const nn::Pass& pass) {
  const nn::Tensors attended = (*self_attention_)(in[0], in[1], {}, pass);
  const at::Tensor x = cross_attention_ ? (**cross_attention_)(attended[0], {}, in[2], pass)[0] : attended[0];
  return {(*feed_forward_)(x, pass), attended[1]};
}

}  // namespace trainer::models::t5
