#include "models/virtual_tokens.h"

#include <ATen/ops/empty.h>

namespace trainer::models {
namespace {

nn::LayoutPtr longer(const nn::Layout& layout, int64_t count) {
  auto out = std::make_shared<nn::Layout>();
  for (int64_t s = 0; s < layout.samples(); ++s) out->append(layout.spans[s].length + count, layout.sample_index[s]);
  return out;
}

/// `values` [T] with `count` rows in front of every sample; the k-th is front(k).
template <class F>
at::Tensor with_front(const at::Tensor& values, const nn::Layout& layout, int64_t count, const F& front) {
  at::Tensor out = at::empty({values.numel() + layout.samples() * count}, values.options());
  if (values.is_meta()) return out;
  const at::Tensor whole = values.contiguous();
  const auto* from = whole.const_data_ptr<int64_t>();
  auto* to = out.data_ptr<int64_t>();
  for (const nn::Span& span : layout.spans) {
    for (int64_t k = 0; k < count; ++k) *to++ = front(k);
    to = std::copy(from + span.begin, from + span.begin + span.length, to);
  }
  return out;
}

}  // namespace

Batch with_virtual_tokens(Batch batch, int64_t count) {
  if (count == 0) return batch;
  const nn::LayoutPtr before = batch.source;
  const bool causal = batch.target == batch.source;
  batch.source = longer(*before, count);
  batch.source_ids = with_front(batch.source_ids, *before, count, [](int64_t k) { return -(k + 1); });
  if (!causal) return batch;
  batch.target = batch.source;
  batch.labels = with_front(batch.labels, *before, count, [](int64_t) { return -100; });
  return batch;
}

}  // namespace trainer::models
