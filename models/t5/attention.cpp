#include "models/t5/attention.h"

#include <cmath>

#include <ATen/ops/tensor.h>

#include "models/nn/attention.h"
#include "models/nn/prefix.h"
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
  const int64_t length = nn::prefix_tokens(pass) + (decoding ? pass.cache->decoded + 1 : rows.longest());
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

// One new token per sample. Each sample's keys have `capacity` consecutive rows in the cache.
nn::Rows T5Attention::attend_decoding(const nn::Rows& x, const at::Tensor& position_bias, const nn::Rows& memory,
                                      const nn::Pass& pass) {
  nn::DecodeCache& cache = *pass.cache;
  nn::DecodeCache::Block& kept = cache.blocks[block_];
  const nn::Rows q = (*q_)(x, pass);
  const nn::AttentionOptions options{q.x.size(1) / config_.d_kv};
  const auto attend_to = [&](const at::Tensor& k, const at::Tensor& v, const at::Tensor& bias,
                             const nn::LayoutPtr& keys) {
    return (*o_)(q.with(nn::packed_attention(q.x, k, v, bias, q.layout, keys, options)), pass);
  };
  if (kind_ == kCross) {
    if (!kept.cross_k.defined()) {
      kept.cross_k = (*k_)(memory, pass).x;
      kept.cross_v = (*v_)(memory, pass).x;
    }
    return attend_to(kept.cross_k, kept.cross_v, {}, memory.layout);
  }
  const at::Tensor k = (*k_)(x, pass).x, v = (*v_)(x, pass).x;
  const int64_t samples = x.x.size(0), width = k.size(1);
  const int64_t before = nn::prefix_tokens(pass) + cache.decoded;
  nn::make_room(kept, {k, v, x.layout}, samples, pass, block_);
  kept.self_k.select(1, before).copy_(k);
  kept.self_v.select(1, before).copy_(v);
  auto keys = std::make_shared<nn::Layout>();
  for (int64_t s = 0; s < samples; ++s) keys->spans.push_back({s * kept.self_k.size(1), before + 1});
  return attend_to(kept.self_k.view({-1, width}), kept.self_v.view({-1, width}), position_bias, keys);
}

}  // namespace trainer::models::t5
