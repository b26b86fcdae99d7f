#include "engine/train/parallelism.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/config/machine/device.h"
#include "engine/config/tables.h"
#include "engine/dist/accelerator.h"
#include "engine/optim/optimizer.h"
#include "engine/train/quantization.h"
#include "models/nn/half_products.h"

namespace trainer::train {
namespace {

/// The number of model replicas among the data-parallel ranks under FSDP. Under the HYBRID strategies each machine has
/// one (of its own pipeline stages), so that only gradients cross the network.
int64_t model_copies(const config::Plan& plan) {
  const config::Config& c = plan.config;
  const int64_t given = c.parallelism_config ? c.parallelism_config->dp_replicate_size : 1;
  const bool hybrid = c.fsdp_config.sharding_strategy == config::ShardingStrategy::kHybridShard ||
                      c.fsdp_config.sharding_strategy == config::ShardingStrategy::kHybridShardZero2;
  const int64_t stages = c.parallelism_config ? c.parallelism_config->pp_size : 1;
  return given == 1 && hybrid ? std::max<int64_t>(1, c.num_machines / stages) : given;
}

/// The dtype that a hook or its wrapper rounds to.
at::ScalarType dtype_of(config::CommHook hook) {
  if (hook == config::CommHook::kFp16) return at::kHalf;
  return hook == config::CommHook::kBf16 ? at::kBFloat16 : at::kFloat;
}

dist::GradientExchange exchange_of(const config::TrainingConfig& training) {
  using config::CommHook;
  dist::GradientExchange exchange;
  exchange.bucket_megabytes = training.ddp_bucket_cap_mb;
  const CommHook hook = training.ddp_comm_hook;
  if (hook == CommHook::kNo) return exchange;
  const bool wrapped = training.ddp_comm_wrapper != CommHook::kNo;
  exchange.sent_as = dtype_of(wrapped ? training.ddp_comm_wrapper : hook);
  if (hook != CommHook::kPowerSgd && hook != CommHook::kBatchedPowerSgd) return exchange;
  const config::PowerSgdConfig& given = training.ddp_comm_state_option;
  exchange.power_sgd = {.batched = hook == CommHook::kBatchedPowerSgd,
                        .rank = given.matrix_approximation_rank,
                        .start_iteration = given.start_power_sgd_iter,
                        .min_compression_rate = given.min_compression_rate,
                        .error_feedback = given.use_error_feedback,
                        .warm_start = given.warm_start,
                        .epsilon = given.orthogonalization_epsilon,
                        .seed = given.random_seed};
  return exchange;
}

constexpr std::pair<at::ScalarType, const char*> kDtypes[] = {
    {at::kFloat, "float32"}, {at::kBFloat16, "bfloat16"}, {at::kHalf, "float16"}};

}  // namespace

std::optional<at::ScalarType> dtype_named(const std::string& name) {
  for (const auto& [dtype, known] : kDtypes)
    if (name == known) return dtype;
  return std::nullopt;
}

std::string name_of(at::ScalarType dtype) {
  for (const auto& [known, name] : kDtypes)
    if (dtype == known) return name;
  return at::toString(dtype);
}

dist::Degrees degrees_of(const config::Plan& plan) {
  const config::Config& c = plan.config;
  const config::ParallelismConfig given = c.parallelism_config.value_or(config::ParallelismConfig{});
  dist::Degrees degrees;
  degrees.tensor = given.tp_size;
  degrees.context = given.cp_size;
  degrees.pipeline = given.pp_size;
  if (c.distributed_type == config::DistributedType::kFsdp &&
      c.fsdp_config.sharding_strategy != config::ShardingStrategy::kNoShard)
    degrees.shard = given.dp_shard_size > 1 ? given.dp_shard_size : plan.data_ranks() / model_copies(plan);
  degrees.replicate = plan.data_ranks() / degrees.shard;
  return degrees;
}

parallel::Parallelism parallelism_of(const config::Plan& plan) {
  const config::Config& c = plan.config;
  const config::ParallelismConfig given = c.parallelism_config.value_or(config::ParallelismConfig{});
  parallel::Parallelism how;
  how.precision = precision_of(plan);
  how.recompute = config::recomputes(c);
  how.offload_activations = c.training.activation_offloading;
  how.sequence_parallel = given.tp_sequence_parallel;
  how.pipeline = {{given.pp_size, given.pp_chunks}, given.pp_last_blocks};
  if (c.distributed_type == config::DistributedType::kFsdp) how.sharding = c.fsdp_config;
  how.exchange = exchange_of(c.training);
  how.updates_by_element = optim::updates_by_element(c.training.optim);
  how.local_sgd_steps = c.training.local_sgd_steps;
  if (c.training.cuda_graphs && config::trains_on_gpus(c))
    how.graphs = [](at::Device device) { return dist::find_accelerator()->graph_recorder(device.index()); };
  return how;
}

parallel::Precision precision_of(const config::Plan& plan) {
  parallel::Precision precision;
  if (plan.config.mixed_precision == config::MixedPrecision::kBf16) precision.compute = at::kBFloat16;
  if (plan.config.mixed_precision == config::MixedPrecision::kFp16) precision.compute = at::kHalf;
  if (const auto dtype = dtype_named(plan.config.model.dtype)) precision.frozen_as = *dtype;
  precision.packed = packed_format(plan.config.model.quantization_config);
  precision.reduce = dtype_named(plan.config.fsdp_config.reduce_dtype).value_or(at::kFloat);
  const config::SavedActivations saved = plan.config.training.saved_activations;
  if (saved == config::SavedActivations::kBfloat16) precision.saved = nn::SavedAs::kBFloat16;
  if (saved == config::SavedActivations::kInt8) precision.saved = nn::SavedAs::kInt8;
  return precision;
}

std::string precision_warning(const config::Plan& plan) {
  const config::MixedPrecision precision = plan.config.mixed_precision;
  const bool fp16 = precision == config::MixedPrecision::kFp16;
  if (precision == config::MixedPrecision::kNo || config::trains_on_gpus(plan.config)) return "";
  if (fp16 ? __builtin_cpu_supports("avx512fp16") : __builtin_cpu_supports("avx512bf16")) {
    if (fp16 || !nn::widens_products(at::kBFloat16)) return "";
    return "mixed_precision bf16: this CPU has no AMX, so products in bf16 are computed in fp32, and 'no' is faster; "
           "bf16 only saves memory.";
  }
  return fmt::format(
      "mixed_precision {0}: this CPU has no {0} instructions (avx512_{0}), so {0} is emulated and slower than 'no'. "
      "Results are the same as on a CPU that has them.",
      fp16 ? "fp16" : "bf16");
}

std::string overflow_warning(const config::Plan& plan, models::Model& model) {
  if (plan.config.mixed_precision != config::MixedPrecision::kFp16) return "";
  const auto parameters = model.all_parameters();
  const auto wide = [](const nn::ParameterPtr& p) { return p->fp32_under_fp16; };
  const auto first = std::find_if(parameters.begin(), parameters.end(), wide);
  if (first == parameters.end()) return "";
  return fmt::format(
      "mixed_precision fp16: {} overflows in fp16, so {} of its layers compute in fp32 ({} and similar); bf16, in "
      "which it was trained, avoids this.",
      model.class_name(), std::count_if(first, parameters.end(), wide), (*first)->name);
}

}  // namespace trainer::train
