#include "models/nn/self_attention.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "engine/base/errors.h"

namespace trainer::nn {
namespace {

int64_t already_there(const DecodeCache* cache, int64_t sample) {
  return cache == nullptr || cache->lengths.empty() ? 0 : cache->lengths.at(sample);
}

/// Puts each sample's new rows behind what `kept` [samples, capacity, width] holds of it.
void append(at::Tensor& kept, const at::Tensor& rows, const Layout& layout, const DecodeCache& cache) {
  if (!kept.defined()) kept = at::empty({layout.samples(), cache.capacity, rows.size(1)}, rows.options());
  for (int64_t s = 0; s < layout.samples(); ++s) {
    const Span span = layout.spans[s];
    if (cache.lengths.at(s) + span.length > cache.capacity)
      throw InternalError(fmt::format("sample {} has {} tokens in a decoding cache of {}: {} more do not fit", s,
                                      cache.lengths[s], cache.capacity, span.length));
    kept.select(0, s).narrow(0, cache.lengths[s], span.length).copy_(rows.narrow(0, span.begin, span.length));
  }
}

/// Where the keys of each sample lie in the cache's rows [samples * capacity, width], the new ones among them.
LayoutPtr cached_keys(const Layout& rows, const DecodeCache& cache) {
  auto keys = std::make_shared<Layout>();
  for (int64_t s = 0; s < rows.samples(); ++s)
    keys->spans.push_back({s * cache.capacity, cache.lengths[s] + rows.spans[s].length});
  keys->positions = rows.positions;
  return keys;
}

}  // namespace

at::Tensor self_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const LayoutPtr& rows,
                          const SelfAttentionOptions& options, const Pass& pass, int64_t block) {
  const AttentionOptions attention{options.heads,   options.causal,   options.scale,
                                   options.dropout, options.kv_heads, options.window};
  if (pass.cache == nullptr) return packed_attention(q, k, v, {}, rows, rows, attention);
  DecodeCache& cache = *pass.cache;
  if (static_cast<int64_t>(cache.blocks.size()) <= block) cache.blocks.resize(block + 1);
  DecodeCache::Block& kept = cache.blocks[block];
  append(kept.self_k, k, *rows, cache);
  append(kept.self_v, v, *rows, cache);
  return packed_attention(q, kept.self_k.flatten(0, 1), kept.self_v.flatten(0, 1), {}, rows, cached_keys(*rows, cache),
                          attention);
}

std::vector<int64_t> row_positions(const Layout& rows, const DecodeCache* cache) {
  std::vector<int64_t> positions(rows.tokens());
  for (int64_t s = 0; s < rows.samples(); ++s)
    for (int64_t i = 0; i < rows.spans[s].length; ++i) positions[rows.spans[s].begin + i] = already_there(cache, s) + i;
  return positions;
}

}  // namespace trainer::nn
