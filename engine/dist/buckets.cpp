#include "engine/dist/buckets.h"

#include <algorithm>

#include <torch/csrc/distributed/c10d/reducer.hpp>

namespace trainer::dist {

std::vector<std::vector<size_t>> buckets_of(const std::vector<at::Tensor>& parameters, int64_t bytes) {
  auto [buckets, limits] = c10d::compute_bucket_assignment_by_size(parameters, {static_cast<size_t>(bytes)});
  std::reverse(buckets.begin(), buckets.end());
  return buckets;
}

}  // namespace trainer::dist
