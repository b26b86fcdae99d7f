#pragma once

#include <functional>
#include <span>

#include "data/samples.h"
#include "models/model.h"

namespace trainer::batching {

/// The samples at `positions` as one batch without padding. `index_of` gives the sample of a position; the position
/// itself keys the sample's dropout. No positions give an empty batch, which every model runs like any other.
models::Batch collate(const data::Samples& samples, std::span<const int64_t> positions,
                      const std::function<int64_t(int64_t)>& index_of);

/// The samples of a batch that `layout` describes. One whose documents don't see each other has several spans, and
/// counts once.
int64_t sample_count(const nn::Layout& layout);

}  // namespace trainer::batching
