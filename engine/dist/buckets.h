#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

namespace trainer::dist {

/// The parameters whose gradients are reduced together, up to `bytes`, as c10d divides them: their indices, bucket by
/// bucket, the last parameters (whose gradients come first) in the first bucket.
std::vector<std::vector<size_t>> buckets_of(const std::vector<at::Tensor>& parameters, int64_t bytes);

}  // namespace trainer::dist
