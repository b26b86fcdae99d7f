#include "models/bert/layer.h"

#include <cmath>

#include "models/nn/self_attention.h"

namespace trainer::models::bert {

nn::Init normal(const BertConfig& c) {
  return {nn::Init::kNormal, c.initializer_range};
}

BertSelfAttention::BertSelfAttention(const BertConfig& c, int64_t layer)
    : Module("BertSelfAttention"),
      config_(c),
      layer_(layer),
      query_(*this, "query", c.hidden_size, c.hidden_size, true, normal(c)),
      key_(*this, "key", c.hidden_size, c.hidden_size, true, normal(c)),
      value_(*this, "value", c.hidden_size, c.hidden_size, true, normal(c)) {}

nn::RowsList BertSelfAttention::forward(const nn::RowsList& in, const nn::Pass& pass) {
  const nn::Rows x = nn::share_gradient(in[0].to(pass.compute));
  const nn::Rows q = (*query_)(x, pass), k = (*key_)(x, pass), v = (*value_)(x, pass);
  nn::AttentionOptions options{.heads = config_.num_attention_heads};
  options.scale = 1 / std::sqrt(static_cast<double>(config_.head_dim()));
  options.dropout = pass.dropout(path(), config_.attention_probs_dropout_prob);
  return {x.with(nn::self_attention(q.x, k.x, v.x, x.layout, options, pass, layer_))};
}

BertResidual::BertResidual(const BertConfig& c, const char* class_name, int64_t in)
    : Module(class_name),
      dropout_(c.hidden_dropout_prob),
      dense_(*this, "dense", in, c.hidden_size, true, normal(c)),
      layer_norm_(*this, "LayerNorm", c.hidden_size, c.layer_norm_eps) {}

nn::RowsList BertResidual::forward(const nn::RowsList& in, const nn::Pass& pass) {
  const nn::Rows part = (*dense_)(in[0], pass);
  const at::Tensor sum = nn::dropout_add(in[1].x, part.x, pass.dropout(path(), dropout_), part.layout);
  return {(*layer_norm_)(part.with(sum), pass)};
}

BertAttention::BertAttention(const BertConfig& c, int64_t layer)
    : Module("BertAttention"),
      self_(*this, "self", c, layer),
      output_(*this, "output", c, "BertSelfOutput", c.hidden_size) {}

nn::RowsList BertAttention::forward(const nn::RowsList& in, const nn::Pass& pass) {
  return {(*output_)((*self_)(in[0], pass), in[0], pass)};
}

BertIntermediate::BertIntermediate(const BertConfig& c)
    : Module("BertIntermediate"),
      activation_(c.activation),
      dense_(*this, "dense", c.hidden_size, c.intermediate_size, true, normal(c)) {}

nn::RowsList BertIntermediate::forward(const nn::RowsList& in, const nn::Pass& pass) {
  return {in[0].with(nn::activate((*dense_)(in[0], pass).x, activation_, {}, in[0].layout))};
}

BertLayer::BertLayer(const BertConfig& c, int64_t layer)
    : Module("BertLayer"),
      attention_(*this, "attention", c, layer),
      intermediate_(*this, "intermediate", c),
      output_(*this, "output", c, "BertOutput", c.intermediate_size) {}

nn::RowsList BertLayer::forward(const nn::RowsList& in, const nn::Pass& pass) {
  const nn::Rows x = (*attention_)(in[0], pass);
  return {(*output_)((*intermediate_)(x, pass), x, pass)};
}

}  // namespace trainer::models::bert
