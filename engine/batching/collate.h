#pragma once

#include <functional>
#include <span>

#include "data/samples/samples.h"
#include "models/model.h"

namespace trainer::batching {

/// The samples at `positions` of the sample order as one batch without padding. `index_of` maps a position to a sample;
/// the position itself seeds the sample's dropout. No positions give an empty batch, which every model accepts.
/// `pinned`: for a device, which copies it without a wait of the host.
models::Batch collate(const data::Samples& samples, std::span<const int64_t> positions,
                      const std::function<int64_t(int64_t)>& index_of, bool pinned = false);

/// The number of samples in a batch with this `layout`. A sample of several documents has several spans, but counts
/// once.
int64_t sample_count(const nn::Layout& layout);

/// The terms of the loss in a batch: its labels that count, or its pairs.
int64_t loss_terms(const models::Batch& batch);

}  // namespace trainer::batching
