// In what order a stage of a pipeline works on micro-batches. Sources: PipeDream-Flush (Narayanan et al. 2021a: one
// forward, one backward) and its interleaved form (Narayanan et al. 2021b).
#pragma once

#include <cstdint>
#include <vector>

namespace trainer::parallel {

/// Ranks in a row, each with `chunks` stretches of the model: chunk c of rank r comes after chunk c of rank r - 1, and
/// the first rank's chunk c after the last rank's chunk c - 1.
struct PipelineShape {
  int64_t ranks = 1, chunks = 1;
};

struct PipelineStep {
  bool forward;
  int64_t chunk, micro_batch;
};

/// All forwards and backwards of one rank in an update. What a rank sends to another one in either direction, that one
/// takes in the same order; so messages need no labels. A rank has at most most_in_flight() forwards whose backward is
/// still to come. Chunks beyond the first one make the pipeline fill in shorter steps.
std::vector<PipelineStep> pipeline_schedule(const PipelineShape& shape, int64_t rank, int64_t micro_batches);

int64_t most_in_flight(const PipelineShape& shape, int64_t rank);

}  // namespace trainer::parallel
