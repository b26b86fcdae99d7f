#include "data/samples/token_samples.h"

#include <algorithm>

#include "engine/base/errors.h"

namespace trainer::data {
namespace {

/// Counts the ascending `numbers` in each of the consecutive `sources`.
std::vector<int64_t> count_by_source(const std::vector<int64_t>& numbers, const std::vector<int64_t>& sources) {
  std::vector<int64_t> counts;
  int64_t end = 0;
  auto from = numbers.begin();
  for (const int64_t source : sources) {
    end += source;
    const auto to = std::lower_bound(from, numbers.end(), end);
    counts.push_back(to - from);
    from = to;
  }
  return counts;
}

}  // namespace

TokenSamples::TokenSamples(std::shared_ptr<const TokenCache> store, std::vector<int64_t> numbers, config::Task task,
                           Classes classes, bool pairs)
    : store_(std::move(store)),
      numbers_(std::move(numbers)),
      sources_(count_by_source(numbers_, store_->facts().sources)),
      task_(task),
      classes_(std::move(classes)),
      pairs_(pairs) {}

int64_t TokenSamples::number(int64_t index) const {
  require(index >= 0 && index < size(), "sample {} of {}", index, size());
  return numbers_[static_cast<size_t>(index)];
}

template <class F>
void TokenSamples::for_each_learned(const CachedSample& stored, const F& f) const {
  const int32_t second_text = rejected_begin(stored);
  for (size_t i = pairs_ ? 1 : 0; i + 1 < stored.second.size(); i += 2)
    for (int32_t at = stored.second[i]; at < stored.second[i + 1]; ++at)
      if (at != 0 && at != second_text) f(at);
}

void TokenSamples::read(int64_t index, Sample& sample) const {
  const CachedSample stored = store_->sample(number(index));
  sample.source.assign(stored.source.begin(), stored.source.end());
  sample.parts.clear();
  sample.reference.clear();
  sample.pixels = {};
  if (pairs_) sample.parts = {0, rejected_begin(stored)};
  if (task_ == config::Task::kCausalLm) {
    sample.labels.assign(stored.source.size(), -100);
    for_each_learned(stored, [&](int32_t at) { sample.labels.at(at - 1) = stored.source[at]; });
  } else {
    sample.labels.assign(stored.second.begin(), stored.second.end());
    if (task_ == config::Task::kSequenceClassification) sample.labels[0] = classes_.numbers.at(sample.labels[0]);
  }
}

SampleText TokenSamples::text(int64_t index) const {
  SampleText text = store_->text(number(index));
  if (task_ == config::Task::kSequenceClassification && !text.target.empty())
    text.target = classes_.names.at(classes_.numbers.at(store_->sample(number(index)).second[0]));
  return text;
}

LabelKind TokenSamples::label_kind() const {
  if (task_ == config::Task::kCausalLm) return LabelKind::kNext;
  return task_ == config::Task::kSeq2SeqLm ? LabelKind::kTarget : LabelKind::kClass;
}

Lengths TokenSamples::lengths(int64_t index) const {
  const CachedSample stored = store_->sample(number(index));
  const auto source = static_cast<int64_t>(stored.source.size()), second = static_cast<int64_t>(stored.second.size());
  if (task_ != config::Task::kCausalLm) return {source, second, second};
  int64_t learned = 0;
  for_each_learned(stored, [&](int32_t) { ++learned; });
  return {source, source, learned, pairs_ ? source - rejected_begin(stored) : 0};
}

}  // namespace trainer::data
