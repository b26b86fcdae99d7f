#include "engine/batching/collate.h"

#include <algorithm>

#include <ATen/ops/empty.h>

namespace trainer::batching {

models::Batch collate(const data::Dataset& dataset, data::Range positions,
                      const std::function<int64_t(int64_t)>& index_of) {
  auto source = std::make_shared<nn::Layout>(), target = std::make_shared<nn::Layout>();
  const TokenCount count = count_tokens(dataset, positions, index_of);
  models::Batch batch{at::empty({count.source}, at::kLong), at::empty({count.target}, at::kLong), source, target,
                      count.target};
  auto* to_source = batch.source_ids.data_ptr<int64_t>();
  auto* to_label = batch.labels.data_ptr<int64_t>();
  for (int64_t position = positions.begin; position < positions.end; ++position) {
    const data::Sample sample = dataset.sample(index_of(position));
    source->append(static_cast<int64_t>(sample.source.size()), position);
    target->append(static_cast<int64_t>(sample.target.size()), position);
    to_source = std::copy(sample.source.begin(), sample.source.end(), to_source);
    to_label = std::copy(sample.target.begin(), sample.target.end(), to_label);
  }
  return batch;
}

TokenCount count_tokens(const data::Dataset& dataset, data::Range positions,
                        const std::function<int64_t(int64_t)>& index_of) {
  TokenCount count;
  for (int64_t position = positions.begin; position < positions.end; ++position) {
    const data::Sample sample = dataset.sample(index_of(position));
    count.source += static_cast<int64_t>(sample.source.size());
    count.target += static_cast<int64_t>(sample.target.size());
  }
  return count;
}

}  // namespace trainer::batching
