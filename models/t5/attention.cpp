#include "models/t5/attention.h"

#include <cmath>

#include <ATen/ops/cat.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/tensor.h>

#include "models/nn/attention.h"
#include "models/nn/self_attention.h"
#include "models/t5/position_bias.h"

namespace trainer::models::t5 {
namespace {

nn::Init normal(const T5Config& c, double fan) {
  return {nn::Init::kNormal, c.initializer_factor / std::sqrt(fan)};
}

}  // namespace

T5Attention::T5Attention(const T5Config& c, Kind kind, bool owns_position_bias, int64_t block)
    : Module("T5Attention"),
      config_(c),
      kind_(kind),
      block_(block),
      q_(*this, "q", c.d_model, c.inner(), false, normal(c, static_cast<double>(c.d_model * c.d_kv))),
      k_(*this, "k", c.d_model, c.inner(), false, normal(c, static_cast<double>(c.d_model))),
      v_(*this, "v", c.d_model, c.inner(), false, normal(c, static_cast<double>(c.d_model))),
      o_(*this, "o", c.inner(), c.d_model, false, normal(c, static_cast<double>(c.inner()))) {
  if (owns_position_bias)
    relative_attention_bias_.emplace(*this, "relative_attention_bias", c.relative_attention_num_buckets, c.num_heads,
                                     normal(c, static_cast<double>(c.d_model)));
}

nn::RowsList T5Attention::operator()(const nn::Rows& x, const nn::Rows& position_bias, const nn::Rows& memory,
                                     const nn::Pass& pass) {
  return Module::operator()({x, position_bias, memory}, pass);
}

nn::RowsList T5Attention::forward(const nn::RowsList& in, const nn::Pass& pass) {
  const nn::Rows bias = relative_attention_bias_ ? own_position_bias(*in[0].layout, pass) : in[1];
  const bool decoding = pass.cache != nullptr && kind_ != kEncoderSelf;
  return {decoding ? attend_decoding(in[0], bias.x, in[2], pass) : attend(in[0], bias.x, in[2], pass), bias};
}

nn::Rows T5Attention::own_position_bias(const nn::Layout& rows, const nn::Pass& pass) {
  const bool decoding = kind_ == kDecoderSelf && pass.cache != nullptr;
  int64_t length = nn::prefix_tokens(pass) + rows.longest();
  for (int64_t s = 0; decoding && s < rows.samples(); ++s) length = std::max(length, nn::positions_before(pass, s) + 1);
  const auto buckets =
      position_buckets(std::max<int64_t>(length, 1), kind_ == kEncoderSelf, config_.relative_attention_num_buckets,
                       config_.relative_attention_max_distance);
  return (**relative_attention_bias_)({at::tensor(buckets, at::kLong)}, pass);
}

nn::Rows T5Attention::attend(const nn::Rows& x, const at::Tensor& position_bias, const nn::Rows& memory,
                             const nn::Pass& pass) {
  const nn::Rows seen = nn::share_gradient(kind_ == kCross ? memory : x);
  const nn::Rows q = (*q_)(kind_ == kCross ? x : seen, pass);
  nn::AttentionOptions options{q.x.size(1) / config_.d_kv, kind_ == kDecoderSelf};
  options.dropout = pass.dropout(path(), config_.dropout_rate, q_->first_out() / config_.d_kv);
  nn::KeysAndValues all{(*k_)(seen, pass).x, (*v_)(seen, pass).x, seen.layout};
  if (kind_ == kDecoderSelf) all = nn::with_prefix(std::move(all), pass, block_);
  return (*o_)(q.with(nn::packed_attention(q.x, all.k, all.v, position_bias, q.layout, all.rows, options)), pass);
}

// One new token per sample.
nn::Rows T5Attention::attend_decoding(const nn::Rows& x, const at::Tensor& position_bias, const nn::Rows& memory,
                                      const nn::Pass& pass) {
  const nn::Rows q = (*q_)(x, pass);
  const nn::KeysAndValues all = kind_ == kCross
                                    ? source_rows(memory, pass)
                                    : nn::cached_rows({(*k_)(x, pass).x, (*v_)(x, pass).x, x.layout}, pass, block_);
  const nn::AttentionOptions options{.heads = q.x.size(1) / config_.d_kv, .decoding = true};
  const at::Tensor bias = kind_ == kCross ? at::Tensor() : position_bias;
  return (*o_)(q.with(nn::packed_attention(q.x, all.k, all.v, bias, q.layout, all.rows, options)), pass);
}

/// The keys and values of the sources of a step's samples, to which those of `memory`, of new samples, are added.
nn::KeysAndValues T5Attention::source_rows(const nn::Rows& memory, const nn::Pass& pass) {
  nn::DecodeCache& cache = *pass.cache;
  nn::DecodeCache::Block& kept = cache.blocks.at(static_cast<size_t>(block_));  // made by the self-attention before it
  const auto add = [&](at::Tensor& rows, const at::Tensor& own) {
    rows = rows.defined() ? at::index_select(at::cat({rows, own}), 0, cache.source_rows) : own;
  };
  if (memory.x.defined()) {
    add(kept.cross_k, (*k_)(memory, pass).x);
    add(kept.cross_v, (*v_)(memory, pass).x);
  }
  return {kept.cross_k, kept.cross_v, cache.sources};
}

}  // namespace trainer::models::t5
