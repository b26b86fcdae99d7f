// Assigns the parts of a model to the ranks of a pipeline.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "engine/parallel/pipeline_schedule.h"
#include "models/decoder_model.h"

namespace trainer::parallel {

struct PipelineOptions {
  PipelineShape shape;
  int64_t last_blocks = 0;  // blocks of the last stage; 0: as many as the others
};

/// The stages of the model in forward order: stage n is chunk n / ranks of rank n % ranks. If the blocks don't divide
/// evenly, the first stages have one more. Errors: ConfigError if the model cannot be split this way.
std::vector<models::Chunk> split_into_chunks(models::Model& model, const PipelineOptions& options);

/// The ranks that hold each parameter. Several: a weight tied across stages. One rank holds all, without `chunks`.
std::map<nn::ParameterPtr, std::set<int>> holders_of(models::Model& model, const std::vector<models::Chunk>& chunks,
                                                     int ranks);

}  // namespace trainer::parallel
