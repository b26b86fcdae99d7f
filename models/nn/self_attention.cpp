#include "models/nn/self_attention.h"

#include <ATen/ops/cat.h>
#include <fmt/format.h>

#include "engine/base/errors.h"
#include "models/nn/device/layout_tensors.h"
#include "models/nn/split_rows.h"

namespace trainer::nn {
namespace {

/// The keys of each sample in the cache's rows [slots * (front + capacity), width], including the new ones.
LayoutPtr make_cached_keys(const Layout& rows, int64_t front, const DecodeCache& cache) {
  auto keys = std::make_shared<Layout>();
  for (int64_t s = 0; s < rows.samples(); ++s) {
    const int64_t length = rows.spans[s].length;
    if (cache.lengths.at(s) + length > cache.capacity)
      throw InternalError(fmt::format("sample {} has {} tokens in a decoding cache of {}: no room for {} more", s,
                                      cache.lengths[s], cache.capacity, length));
    keys->spans.push_back({cache.slot.at(s) * (front + cache.capacity), front + cache.lengths[s] + length});
  }
  keys->sample_index = rows.sample_index;
  return keys;
}

/// Where the new ones are.
LayoutPtr make_new_keys(const Layout& rows, const Layout& keys) {
  auto added = std::make_shared<Layout>();
  for (int64_t s = 0; s < rows.samples(); ++s) {
    const int64_t length = rows.spans[s].length;
    added->spans.push_back({keys.spans[s].begin + keys.spans[s].length - length, length});
  }
  return added;
}

/// Writes `rows`, laid out by `from`, to the spans of `to` in `kept` [rows, width].
void append(const at::Tensor& kept, const at::Tensor& rows, const Layout& from, const Layout& to) {
  if (from.longest() == 1 && rows.size(0) == to.samples()) {
    kept.index_copy_(0, device::tensors_of(to, kept.device()).begin, rows);
    return;
  }
  for (int64_t s = 0; s < from.samples(); ++s)
    kept.narrow(0, to.spans[s].begin, to.spans[s].length)
        .copy_(rows.narrow(0, from.spans[s].begin, from.spans[s].length));
}

// Note [Stretches of samples]
// Under sequence or context parallelism, a rank's rows are one or several rounds, each with one slice per sample in
// sample order. Its queries are at the end of their keys: the keys of their sample up to the slice's last token.
// Rounds run one after the other, because they attend to the same keys and add to the gradients of these.

/// Round number `round` of `rows`, as a layout whose rows begin at 0.
LayoutPtr round_of(const Layout& rows, int64_t round, int64_t samples) {
  return rows.derived(fmt::format("round {}", round), [&] {
    auto out = std::make_shared<Layout>();
    for (int64_t s = round * samples; s < (round + 1) * samples; ++s) {
      out->append(rows.spans[s].length, rows.sample_index[s]);
      out->slices.push_back({rows.start(s), rows.length_of_sample(s)});
    }
    return out;
  });
}

/// The keys of a round's queries among `all`, after the first `front` of each sample.
LayoutPtr keys_of(const Layout& queries, const Layout& all, int64_t front) {
  return queries.derived(fmt::format("keys after {} tokens", front), [&] {
    auto keys = std::make_shared<Layout>();
    keys->sample_index = queries.sample_index;
    for (int64_t s = 0; s < queries.samples(); ++s)
      keys->spans.push_back({all.spans[s].begin, front + queries.start(s) + queries.spans[s].length});
    return keys;
  });
}

at::Tensor attend_shared(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const LayoutPtr& rows,
                         const AttentionOptions& options, const Pass& pass, int64_t block) {
  const KeysAndValues all = with_prefix({SplitRows::all(rows, k), SplitRows::all(rows, v), rows->whole}, pass, block);
  const int64_t samples = rows->whole->samples(), front = prefix_tokens(pass);
  if (samples == 0) return packed_attention(q, all.k, all.v, {}, rows, all.rows, options);
  std::vector<at::Tensor> rounds;
  int64_t at = 0;
  for (int64_t round = 0; round < rows->samples() / samples; ++round) {
    const LayoutPtr queries = round_of(*rows, round, samples), keys = keys_of(*queries, *all.rows, front);
    rounds.push_back(packed_attention(q.narrow(0, at, queries->tokens()), all.k, all.v, {}, queries, keys, options));
    at += queries->tokens();
  }
  return at::cat(rounds);
}

}  // namespace

at::Tensor self_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const LayoutPtr& rows,
                          const AttentionOptions& options, const Pass& pass, int64_t block) {
  if (pass.cache == nullptr && rows->shared) return attend_shared(q, k, v, rows, options, pass, block);
  if (pass.cache == nullptr) {
    const KeysAndValues seen = with_prefix({k, v, rows}, pass, block);
    return packed_attention(q, seen.k, seen.v, {}, rows, seen.rows, options);
  }
  AttentionOptions step = options;
  step.decoding = true;
  const KeysAndValues all = cached_rows({k, v, rows}, pass, block);
  return packed_attention(q, all.k, all.v, {}, rows, all.rows, step);
}

KeysAndValues cached_rows(const KeysAndValues& own, const Pass& pass, int64_t block) {
  const int64_t front = prefix_tokens(pass);
  DecodeCache& cache = *pass.cache;
  if (static_cast<int64_t>(cache.blocks.size()) <= block) cache.blocks.resize(block + 1);
  DecodeCache::Block& kept = cache.blocks[block];
  make_room(kept, own, pass, block);
  const auto once = [&](const char* name, const auto& make) -> LayoutPtr {  // for all blocks of a step
    return own.rows == cache.step ? own.rows->derived(name, make) : make();
  };
  const LayoutPtr keys = once("keys of the step", [&] { return make_cached_keys(*own.rows, front, cache); });
  const LayoutPtr places = once("new keys of the step", [&] { return make_new_keys(*own.rows, *keys); });
  const at::Tensor k = kept.self_k.flatten(0, 1), v = kept.self_v.flatten(0, 1);
  append(k, own.k, *own.rows, *places);
  append(v, own.v, *own.rows, *places);
  return {k, v, keys};
}

int64_t positions_before(const Pass& pass, int64_t sample) {
  const bool cached = pass.cache != nullptr && !pass.cache->lengths.empty();
  return prefix_tokens(pass) + (cached ? pass.cache->lengths.at(sample) : 0);
}

std::vector<int64_t> row_positions(const Layout& rows, const Pass& pass) {
  std::vector<int64_t> positions(rows.tokens());
  for (int64_t s = 0; s < rows.samples(); ++s)
    for (int64_t i = 0; i < rows.spans[s].length; ++i)
      positions[rows.spans[s].begin + i] = positions_before(pass, s) + rows.start(s) + i;
  return positions;
}

}  // namespace trainer::nn
