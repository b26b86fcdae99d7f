#include "models/nn/part.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace trainer::nn {
namespace {

int64_t product(Shape::const_iterator from, Shape::const_iterator to) {
  return std::accumulate(from, to, int64_t{1}, std::multiplies<>());
}

}  // namespace

Shape part_shape(const Part& part, Shape whole) {
  if (part.whole()) return whole;
  int64_t rows = 0;
  for (const Range& range : part.ranges) rows += range.end - range.begin;
  whole[static_cast<size_t>(part.dim)] = rows;
  return whole;
}

Part transposed(Part part) {
  part.dim = 1 - part.dim;
  return part;
}

std::vector<Run> runs_of(const Part& part, const Shape& whole, int64_t begin, int64_t end) {
  if (begin >= end) return {};
  if (part.whole()) return {{begin, begin, end - begin}};
  const auto dim = whole.begin() + part.dim;
  const int64_t outer = product(whole.begin(), dim), inner = product(dim + 1, whole.end());
  std::vector<Run> runs;
  int64_t at = 0;  // in the slice
  for (int64_t o = 0; o < outer && at < end; ++o)
    for (const Range& range : part.ranges) {
      const int64_t count = (range.end - range.begin) * inner;
      const int64_t first = std::max(begin, at), last = std::min(end, at + count);
      if (first < last) {
        const int64_t there = (o * *dim + range.begin) * inner + first - at;
        if (!runs.empty() && runs.back().whole + runs.back().count == there)
          runs.back().count += last - first;
        else
          runs.push_back({there, first, last - first});
      }
      at += count;
    }
  return runs;
}

}  // namespace trainer::nn
