// The slice of a tensor that one rank has, when several share each layer (tensor parallel).
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

/// Of the whole tensor: along `dim` these rows, one behind the other. Several ranges: where one tensor holds several
/// (GPT-2's queries, keys and values), each of which is cut. None: the whole tensor.
struct Part {
  int64_t dim = 0;
  std::vector<Range> ranges;  // ascending, apart from each other

  bool whole() const { return ranges.empty(); }
  bool operator==(const Part&) const = default;
};

/// The shape of `part` of a tensor of the shape `whole`.
Shape part_shape(const Part& part, Shape whole);

/// A stretch that lies without gaps in the part and in the whole, both flattened.
struct Run {
  int64_t whole;  // where it begins in the whole tensor
  int64_t part;   // where it begins in the part
  int64_t count;  // elements
};

/// Elements [begin, end) of the flattened part, in ascending order.
std::vector<Run> runs_of(const Part& part, const Shape& whole, int64_t begin, int64_t end);

}  // namespace trainer::nn
