#pragma once

#include <cstdint>
#include <vector>

namespace trainer::models::t5 {

/// The bucket of `distance` = key position - query position. Source: T5's relative attention, evaluated in fp32 as in
/// transformers.
int64_t position_bucket(int64_t distance, bool bidirectional, int64_t buckets, int64_t max_distance);

/// The buckets of the distances -(length - 1) … length - 1.
std::vector<int64_t> position_buckets(int64_t length, bool bidirectional, int64_t buckets, int64_t max_distance);

}  // namespace trainer::models::t5
