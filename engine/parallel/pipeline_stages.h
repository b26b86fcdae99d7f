// Which rank of a pipeline holds which parts of a model.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "engine/parallel/pipeline_schedule.h"
#include "models/decoder_model.h"

namespace trainer::parallel {

struct PipelineOptions {
  PipelineShape shape;
  int64_t last_blocks = 0;  // blocks of the last stretch; 0: as many as the others
};

/// The stretches of the model in forward order: number n is chunk n / ranks of the rank n % ranks. The first ones have
/// a block more where the number does not divide. Errors: ConfigError when the model cannot be cut so.
std::vector<models::Stretch> cut_model(models::Model& model, const PipelineOptions& options);

/// The ranks that hold each parameter. More than one: a weight that is tied between parts of the model.
std::map<nn::ParameterPtr, std::set<int>> holders_of(models::DecoderModel& model,
                                                     const std::vector<models::Stretch>& stretches, int ranks);

}  // namespace trainer::parallel
