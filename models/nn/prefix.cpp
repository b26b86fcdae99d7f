#include "models/nn/prefix.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

namespace trainer::nn {
namespace {

/// `own` [T, width], laid out by `rows`, with `front` inserted before every sample. Without samples, `front` still
/// takes part in backward: a rank that the last samples didn't suffice for has a gradient, of zeros, as the others do.
at::Tensor in_front(const at::Tensor& front, const at::Tensor& own, const Layout& rows) {
  std::vector<int64_t> lengths;
  for (const Span& span : rows.spans) lengths.push_back(span.length);
  const at::Tensor same = front.to(own.scalar_type());
  if (lengths.empty()) return at::cat({same.narrow(0, 0, 0), own});
  std::vector<at::Tensor> parts;
  for (const at::Tensor& sample : own.split_with_sizes(lengths)) {
    parts.push_back(same);
    parts.push_back(sample);
  }
  return at::cat(parts);
}

LayoutPtr longer(const Layout& own, int64_t tokens) {
  return own.derived(fmt::format("after {} tokens", tokens), [&] {
    auto out = std::make_shared<Layout>();
    for (int64_t s = 0; s < own.samples(); ++s) out->append(tokens + own.spans[s].length, own.sample_index[s]);
    return out;
  });
}

at::Tensor room(const at::Tensor& own, const Pass& pass, const std::vector<at::Tensor>* prefix, int64_t block) {
  const int64_t front = prefix_tokens(pass);
  at::Tensor rows = at::empty({pass.cache->slots, front + pass.cache->capacity, own.size(1)}, own.options());
  if (front > 0) rows.narrow(1, 0, front).copy_(prefix->at(block));
  return rows;
}

}  // namespace

int64_t prefix_tokens(const Pass& pass) {
  return pass.prefix ? pass.prefix->tokens : 0;
}

KeysAndValues with_prefix(KeysAndValues own, const Pass& pass, int64_t block) {
  if (!pass.prefix) return own;
  const Prefix& prefix = *pass.prefix;
  return {in_front(prefix.keys.at(block), own.k, *own.rows), in_front(prefix.values.at(block), own.v, *own.rows),
          longer(*own.rows, prefix.tokens)};
}

void make_room(DecodeCache::Block& kept, const KeysAndValues& own, const Pass& pass, int64_t block) {
  if (kept.self_k.defined()) return;
  kept.self_k = room(own.k, pass, pass.prefix ? &pass.prefix->keys : nullptr, block);
  kept.self_v = room(own.v, pass, pass.prefix ? &pass.prefix->values : nullptr, block);
}

}  // namespace trainer::nn
