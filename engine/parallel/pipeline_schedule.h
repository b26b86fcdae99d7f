// The order in which a pipeline rank processes micro-batches. Sources: PipeDream-Flush (Narayanan et al. 2021a: one
// forward, one backward) and its interleaved variant (Narayanan et al. 2021b).
#pragma once

#include <cstdint>
#include <vector>

namespace trainer::parallel {

/// A chain of ranks with `chunks` stages each: chunk c of rank r follows chunk c of rank r - 1, and the first rank's
/// chunk c follows the last rank's chunk c - 1.
struct PipelineShape {
  int64_t ranks = 1, chunks = 1;
};

struct PipelineStep {
  bool forward;
  int64_t chunk, micro_batch;
};

/// All forwards and backwards of one rank in an update. A rank receives messages in the order in which its neighbor
/// sends them, so messages need no tags. At most most_in_flight() forwards of a rank wait for their backward. More
/// chunks shorten the steps in which the pipeline fills.
std::vector<PipelineStep> pipeline_schedule(const PipelineShape& shape, int64_t rank, int64_t micro_batches);

int64_t most_in_flight(const PipelineShape& shape, int64_t rank);

}  // namespace trainer::parallel
