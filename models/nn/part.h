// The slice of a tensor that one tensor-parallel rank has.
#pragma once

#include <cstdint>
#include <vector>

namespace trainer::nn {

using Shape = std::vector<int64_t>;

/// Rows [begin, end) along one dimension.
struct Range {
  int64_t begin, end;
  bool operator==(const Range&) const = default;
};

/// A slice of a tensor: these rows along `dim`, concatenated. Several ranges if the tensor fuses several (GPT-2's
/// queries, keys and values), each of which is split. No range: the whole tensor.
struct Part {
  int64_t dim = 0;
  std::vector<Range> ranges;  // ascending, not adjacent

  bool whole() const { return ranges.empty(); }
  bool operator==(const Part&) const = default;
};

/// The shape of the slice `part` of a tensor of shape `whole`.
Shape part_shape(const Part& part, Shape whole);

/// The same slice of the transpose of a matrix.
Part transposed(Part part);

/// Elements that are contiguous both in the slice and in the whole tensor, both flattened.
struct Run {
  int64_t whole;  // offset in the whole tensor
  int64_t part;   // offset in the slice
  int64_t count;  // elements
};

/// Elements [begin, end) of the flattened slice, in ascending order.
std::vector<Run> runs_of(const Part& part, const Shape& whole, int64_t begin, int64_t end);

}  // namespace trainer::nn
