#pragma once

#include <functional>

#include "data/dataset.h"
#include "data/range.h"
#include "models/model.h"

namespace trainer::batching {

/// The samples at `positions` as one batch without padding. `index_of` gives the sample of a position; the position
/// itself keys the sample's dropout. An empty range gives an empty batch, which every model runs like any other.
models::Batch collate(const data::Dataset& dataset, data::Range positions,
                      const std::function<int64_t(int64_t)>& index_of);

/// Tokens of the samples at `positions`.
struct TokenCount {
  int64_t source = 0, target = 0;
};
TokenCount count_tokens(const data::Dataset& dataset, data::Range positions,
                        const std::function<int64_t(int64_t)>& index_of);

}  // namespace trainer::batching
