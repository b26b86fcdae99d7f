#include "engine/parallel/parallelize.h"

#include <set>

#include "engine/base/errors.h"
#include "engine/base/first_problems.h"
#include "engine/base/listed.h"
#include "engine/parallel/activation_checkpoint.h"
#include "engine/parallel/context_parallel.h"
#include "engine/parallel/graphed_schedule.h"
#include "engine/parallel/local_sgd_model.h"
#include "engine/parallel/pipelined_schedule.h"
#include "engine/parallel/sequence_parallel.h"
#include "engine/parallel/sharded_weights.h"
#include "engine/parallel/straight_schedule.h"
#include "engine/parallel/tensor_parallel.h"
#include "engine/parallel/threaded_schedule.h"
#include "engine/parallel/whole_weights.h"
#include "engine/parallel/wrap_policy.h"

namespace trainer::parallel {
namespace {

/// One problem of each layer.
void check_packing(models::Model& model, int64_t tensor_ranks, const Precision& precision) {
  std::vector<std::string> problems;
  std::set<std::string> layers;
  const auto check = [&](const nn::Parameter& p) {
    std::string problem = precision.packing_problem(p);
    if (!problem.empty() && layers.insert(p.name).second) problems.push_back(std::move(problem));
  };
  for (const nn::ParameterPtr& p : model.all_parameters()) check(*p);
  const bool whole_fit = problems.empty();
  for (const nn::Parameter& slice : slices_of_inputs(model, tensor_ranks)) check(slice);
  if (problems.empty()) return;
  throw ConfigError(
      "model.quantization_config.load_in_4bit: {} can't be quantized; add {} to llm_int8_skip_modules{}:{}",
      counted(problems.size(), "layer", "layers"), problems.size() == 1 ? "it" : "them", whole_fit ? kOtherSlices : "",
      first_problems(problems));
}

void recompute_activations(models::Model& model, const Parallelism& how) {
  if (!how.recompute) return;
  checkpoint_activations(model, how.offload_activations);
  for (const auto& replica : how.replicas) checkpoint_activations(*replica, how.offload_activations);
}

/// Null if the model's passes aren't recorded.
std::unique_ptr<Schedule> make_graphed_schedule(models::Model& model, const dist::MeshPtr& mesh, Weights& weights,
                                                const Parallelism& how) {
  auto* const decoder = dynamic_cast<models::DecoderModel*>(&model);
  const at::Device device = mesh->world().device();
  if (!how.graphs || decoder == nullptr || model.classifies() || model.virtual_tokens() > 0) return nullptr;
  const dist::Degrees degrees = mesh->degrees();
  if (how.sharding || degrees.tensor * degrees.context * degrees.pipeline > 1) return nullptr;
  if (device.is_cpu() || device.is_meta()) return nullptr;
  auto recorder = how.graphs(device);
  if (recorder == nullptr) return nullptr;
  return std::make_unique<GraphedSchedule>(*decoder, mesh, weights, std::move(recorder));
}

/// Null with one stage.
std::unique_ptr<StageRunner> make_stages(models::Model& model, const dist::MeshPtr& mesh, const PipelineShape& shape,
                                         const std::vector<models::Chunk>& chunks) {
  if (chunks.empty()) return nullptr;
  return std::make_unique<StageRunner>(static_cast<models::DecoderModel&>(model), mesh, shape, chunks);
}

std::unique_ptr<Weights> make_weights(models::Model& model, const std::vector<models::Chunk>& chunks,
                                      const dist::Mesh& mesh, const Parallelism& how, const WeightSource& source) {
  if (how.sharding && (chunks.empty() || mesh.degrees().shard > 1 || how.sharding->offload_params))
    return std::make_unique<ShardedWeights>(model, chunks, mesh, how.precision, *how.sharding, source);
  using enum WholeWeights::Sums;
  const auto when = how.local_sgd_steps > 0 ? kNever : how.graphs ? kAfterBackward : kInBackward;
  return std::make_unique<WholeWeights>(model, chunks, mesh, how.precision, when, how.exchange, how.updates_by_element,
                                        source);
}

std::unique_ptr<Schedule> make_schedule(models::Model& model, const dist::MeshPtr& mesh, Weights& weights,
                                        std::unique_ptr<StageRunner> stages,
                                        std::vector<std::unique_ptr<models::Model>> replicas) {
  if (stages)
    return std::make_unique<PipelinedSchedule>(static_cast<models::DecoderModel&>(model), mesh, weights,
                                               std::move(stages));
  if (!replicas.empty()) return std::make_unique<ThreadedSchedule>(model, mesh, weights, std::move(replicas));
  return std::make_unique<StraightSchedule>(model, mesh, weights);
}

}  // namespace

void check_parallelism(models::Model& model, const dist::Degrees& degrees, const Parallelism& how) {
  if (how.sharding) plan_units(model, *how.sharding);
  check_layers_split(model, degrees.tensor);
  check_samples_shared(model, degrees.context);
  if (degrees.pipeline > 1) split_into_chunks(model, how.pipeline);
  check_packing(model, degrees.tensor, how.precision);
}

std::unique_ptr<ParallelModel> parallelize(std::unique_ptr<models::Model> model, const dist::MeshPtr& mesh,
                                           Parallelism how, const WeightSource& source) {
  recompute_activations(*model, how);
  split_layers(*model, mesh);
  std::vector<models::Chunk> chunks;  // none with one stage
  if (mesh->degrees().pipeline > 1) chunks = split_into_chunks(*model, how.pipeline);
  auto stages = make_stages(*model, mesh, how.pipeline.shape, chunks);
  // After the stages have replaced the layer stack, whose input and output bound the sequence-parallel region.
  if (how.sequence_parallel) share_rows(*model, mesh);
  auto weights = make_weights(*model, chunks, *mesh, how, source);
  auto schedule = make_graphed_schedule(*model, mesh, *weights, how);
  if (!schedule) schedule = make_schedule(*model, mesh, *weights, std::move(stages), std::move(how.replicas));
  if (how.local_sgd_steps > 0)
    return std::make_unique<LocalSgdModel>(std::move(model), mesh, how.precision, std::move(weights),
                                           std::move(schedule), how.local_sgd_steps);
  return std::make_unique<ParallelModel>(std::move(model), mesh, how.precision, std::move(weights),
                                         std::move(schedule));
}

}  // namespace trainer::parallel
