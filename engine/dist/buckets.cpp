#include "engine/dist/buckets.h"

#include <algorithm>

#include <torch/csrc/distributed/c10d/reducer.hpp>

namespace trainer::dist {

std::vector<std::vector<size_t>> buckets_of(const std::vector<at::Tensor>& parameters, double megabytes) {
  const auto bytes = static_cast<size_t>(megabytes * 1024 * 1024);
  auto [buckets, limits] = c10d::compute_bucket_assignment_by_size(parameters, {bytes});
  std::reverse(buckets.begin(), buckets.end());
  return buckets;
}

}  // namespace trainer::dist
