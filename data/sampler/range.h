// A half-open range of sample indices or samples.
#pragma once

#include <cstdint>

namespace trainer::data {

/// [begin, end).
struct Range {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
  bool empty() const { return begin == end; }
  bool operator==(const Range&) const = default;
};

}  // namespace trainer::data
