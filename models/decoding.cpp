#include "models/decoding.h"

#include <algorithm>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include "models/nn/device/layout_tensors.h"
#include "models/virtual_tokens.h"

namespace trainer::models {

Batch sources_of(const Batch& batch, int64_t first, int64_t end) {
  if (first == 0 && end == batch.source->samples()) return {.source_ids = batch.source_ids, .source = batch.source};
  auto layout = std::make_shared<nn::Layout>();
  for (int64_t s = first; s < end; ++s)
    layout->append(batch.source->spans[static_cast<size_t>(s)].length,
                   batch.source->sample_index[static_cast<size_t>(s)]);
  const int64_t begin = first < end ? batch.source->spans[static_cast<size_t>(first)].begin : 0;
  return {.source_ids = batch.source_ids.narrow(0, begin, layout->tokens()), .source = layout};
}

Decoding::Decoding(const Batch& batch, const Model& model, int64_t at_once, int64_t room)
    : batch_(batch), virtual_tokens_(model.virtual_tokens()) {
  const int64_t samples = batch.source->samples();
  cache_.slots = at_once > 0 ? std::min(at_once, samples) : samples;
  cache_.capacity = room;
  if (model.task() == Task::kCausalLm)
    cache_.capacity += batch.source->longest() + virtual_tokens_;
  else
    least_free_ = std::max<int64_t>(1, cache_.slots / 4);
}

void Decoding::begin(Model& model, const nn::Pass& pass) {
  const int64_t first = next_;
  next_ += std::min(cache_.slots - std::ssize(active_), batch_.source->samples() - first);
  const Batch added = with_virtual_tokens(sources_of(batch_, first, next_), virtual_tokens_);
  const nn::Rows rows = model.begin_decoding(added, pass);
  const at::Tensor ids = rows.x.contiguous();
  std::vector<bool> taken(static_cast<size_t>(cache_.slots), false);
  for (const Active& one : active_) taken[static_cast<size_t>(one.slot)] = true;
  for (int64_t s = 0, slot = 0; s < next_ - first; ++s, ++slot) {
    while (taken[static_cast<size_t>(slot)]) ++slot;
    const nn::Span span = rows.layout->spans[static_cast<size_t>(s)],
                   source = added.source->spans[static_cast<size_t>(s)];
    Active one{.sample = first + s, .slot = slot, .source = {source_rows_ + source.begin, source.length}};
    one.tokens.resize(static_cast<size_t>(span.length));
    if (!ids.is_meta()) std::copy_n(ids.const_data_ptr<int64_t>() + span.begin, span.length, one.tokens.begin());
    active_.push_back(std::move(one));
  }
  std::sort(active_.begin(), active_.end(), [](const Active& a, const Active& b) { return a.slot < b.slot; });
  if (cache_.memory.x.defined()) {
    std::vector<int64_t> order;
    int64_t at = 0;
    for (Active& one : active_) {
      for (int64_t row = one.source.begin; row < one.source.begin + one.source.length; ++row) order.push_back(row);
      one.source.begin = std::exchange(at, at + one.source.length);
    }
    source_rows_ = at;
    cache_.source_rows = nn::device::sent(at::tensor(order, at::kLong), cache_.memory.x.device());
  }
  lay_out();
}

std::vector<int64_t> Decoding::samples() const {
  std::vector<int64_t> samples;
  for (const Active& one : active_) samples.push_back(one.sample);
  return samples;
}

void Decoding::advance(const std::function<int64_t(size_t row)>& next) {
  cache_.memory = {};
  cache_.source_rows.reset();
  for (size_t row = 0; row < active_.size(); ++row) {
    Active& one = active_[row];
    one.length += std::ssize(one.tokens);
    const int64_t token = next(row);
    one.tokens.assign(token < 0 ? 0 : 1, token);
  }
  std::erase_if(active_, [](const Active& one) { return one.tokens.empty(); });
  lay_out();
}

void Decoding::lay_out() {
  const bool is_meta = batch_.source_ids.is_meta();
  auto step = std::make_shared<nn::Layout>(), sources = std::make_shared<nn::Layout>();
  cache_.slot.clear();
  cache_.lengths.clear();
  std::vector<int64_t> tokens;
  for (const Active& one : active_) {
    const int64_t index = batch_.source->sample_index[static_cast<size_t>(one.sample)];
    step->append(std::ssize(one.tokens), index);
    sources->spans.push_back(one.source);
    sources->sample_index.push_back(index);
    cache_.slot.push_back(one.slot);
    cache_.lengths.push_back(one.length);
    tokens.insert(tokens.end(), one.tokens.begin(), one.tokens.end());
  }
  cache_.step = std::move(step);
  cache_.sources = std::move(sources);
  tokens_ = is_meta ? at::empty({std::ssize(tokens)}, batch_.source_ids.options()) : at::tensor(tokens, at::kLong);
}

}  // namespace trainer::models
