#include "engine/parallel/pipeline_schedule.h"

#include <algorithm>

namespace trainer::parallel {
namespace {

/// The k-th forward or backward of a rank. With several chunks, a group of as many micro-batches as there are ranks
/// runs through the first chunk, then the same group through the next; backwards start with the last chunk.
PipelineStep step_at(const PipelineShape& shape, bool forward, int64_t k) {
  if (shape.chunks == 1) return {forward, 0, k};
  const int64_t round = shape.ranks * shape.chunks, within = k % round, chunk = within / shape.ranks;
  return {forward, forward ? chunk : shape.chunks - 1 - chunk, k / round * shape.ranks + within % shape.ranks};
}

/// Number of forwards before the first backward, which waits for the later ranks.
int64_t forwards_ahead(const PipelineShape& shape, int64_t rank) {
  const int64_t behind = shape.ranks - 1 - rank;
  return shape.chunks == 1 ? behind : 2 * behind + (shape.chunks - 1) * shape.ranks;
}

}  // namespace

std::vector<PipelineStep> pipeline_schedule(const PipelineShape& shape, int64_t rank, int64_t micro_batches) {
  const int64_t rounds = (micro_batches + shape.ranks - 1) / shape.ranks;
  const int64_t count = shape.chunks == 1 ? micro_batches : rounds * shape.ranks * shape.chunks;
  const int64_t ahead = std::min(forwards_ahead(shape, rank), count);
  std::vector<PipelineStep> steps;
  const auto add = [&](bool forward, int64_t k) {
    const PipelineStep step = step_at(shape, forward, k);
    if (step.micro_batch < micro_batches) steps.push_back(step);  // the last round might not be full
  };
  for (int64_t k = 0; k < count + ahead; ++k) {
    if (k < count) add(true, k);
    if (k >= ahead) add(false, k - ahead);
  }
  return steps;
}

int64_t most_in_flight(const PipelineShape& shape, int64_t rank) {
  return forwards_ahead(shape, rank) + 1;
}

}  // namespace trainer::parallel
