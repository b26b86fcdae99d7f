// How long the training samples are.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "data/samples/samples.h"

namespace trainer::train {

/// Lengths of the sources or the targets of the training samples, in tokens.
struct LengthReport {
  struct Bar {
    int64_t from = 0, to = 0;  // inclusive
    int64_t samples = 0;
  };
  int64_t shortest = 0, longest = 0;
  double mean = 0;
  std::vector<Bar> histogram;  // contiguous; empty without samples
};

struct SampleLengths {
  LengthReport source, target;
};

/// Looks at no more than `most` samples, at equal distances.
SampleLengths sample_lengths(const data::Samples& samples, int64_t most = std::numeric_limits<int64_t>::max());

}  // namespace trainer::train
