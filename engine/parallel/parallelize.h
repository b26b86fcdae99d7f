#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/config/sections/distributed.h"
#include "engine/dist/bucket_reducer.h"
#include "engine/dist/graph.h"
#include "engine/parallel/parallel_model.h"
#include "engine/parallel/pipeline_stages.h"

namespace trainer::parallel {

/// How a model is parallelized, besides the degrees of the mesh. The default: whole on every rank (DDP).
struct Parallelism {
  Precision precision;
  bool recompute = false;            // activations, in backward
  bool offload_activations = false;  // those that recomputation starts from, to the host
  bool sequence_parallel = false;    // tensor-parallel ranks split the activations between regions too
  PipelineOptions pipeline;
  std::optional<config::FsdpConfig> sharding;  // of values over the mesh's shard axis
  dist::GradientExchange exchange;             // of unsharded gradients
  bool updates_by_element = false;             // what the optimizer does (optim::updates_by_element)
  /// Makes the recorder of a device; null, or no function: passes aren't recorded (Note [Graphs of micro-batches]).
  std::function<std::unique_ptr<dist::GraphRecorder>(at::Device)> graphs;
  int64_t local_sgd_steps = 0;  // updates between averagings of weights; 0: gradients are summed
  std::vector<std::unique_ptr<models::Model>> replicas;  // DATA_PARALLEL: the models of the other devices, no values
};

/// Errors: ConfigError if `model` cannot be parallelized this way: an unknown class of units, layers that the ranks
/// cannot split, too few blocks. Call it before anything is written.
void check_parallelism(models::Model& model, const dist::Degrees& degrees, const Parallelism& how);

/// Collective. `model`, which has its adapters but no values yet, spread over the ranks of `mesh`, with the values of
/// `source`.
std::unique_ptr<ParallelModel> parallelize(std::unique_ptr<models::Model> model, const dist::MeshPtr& mesh,
                                           Parallelism how, const WeightSource& source);

}  // namespace trainer::parallel
