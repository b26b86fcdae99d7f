#include "engine/config/machine/machines.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "engine/base/errors.h"

namespace trainer::config {
namespace {

bool keeps_copies_on_machines(const Config& config) {
  const ShardingStrategy strategy = config.fsdp_config.sharding_strategy;
  return config.distributed_type == DistributedType::kFsdp &&
         (strategy == ShardingStrategy::kHybridShard || strategy == ShardingStrategy::kHybridShardZero2);
}

/// The mesh for this many machines: if dp_shard_size is set, the number of replicas changes. None if the ranks can't be
/// divided evenly.
std::optional<ParallelismConfig> mesh_of(const Config& config, int64_t machines) {
  ParallelismConfig mesh = config.parallelism_config.value_or(ParallelismConfig{});
  const int64_t ranks = config.num_processes / config.num_machines * machines;
  int64_t share_samples = 1;
  for (const int64_t size : {mesh.tp_size, mesh.cp_size, mesh.sp_size, mesh.pp_size})
    share_samples *= std::max<int64_t>(1, size);  // a size below 1 is refused by its own option
  if (mesh.dp_shard_size > 1)
    mesh.dp_replicate_size = std::max<int64_t>(1, ranks / (share_samples * mesh.dp_shard_size));
  const bool by_machines = mesh.dp_replicate_size == 1 && mesh.dp_shard_size <= 1 && keeps_copies_on_machines(config);
  const int64_t copies = by_machines ? machines : std::max<int64_t>(1, mesh.dp_replicate_size);
  const int64_t product = share_samples * copies * std::max<int64_t>(1, mesh.dp_shard_size);
  const bool even = mesh.dp_shard_size > 1 ? ranks == product : ranks % product == 0;
  return even ? std::optional(mesh) : std::nullopt;
}

int64_t least_machines(const Config& config) {
  return config.min_machines > 0 ? std::min(config.min_machines, config.num_machines) : config.num_machines;
}

std::vector<int64_t> machines_that(const Config& config, bool usable) {
  std::vector<int64_t> numbers;
  for (int64_t machines = least_machines(config); machines <= config.num_machines; ++machines)
    if ((machines == config.num_machines || mesh_of(config, machines).has_value()) == usable)
      numbers.push_back(machines);
  return numbers;
}

}  // namespace

bool is_elastic(const Config& config) {
  return least_machines(config) < config.num_machines;
}

std::vector<int64_t> usable_machines(const Config& config) {
  return machines_that(config, true);
}

std::vector<int64_t> unusable_machines(const Config& config) {
  return machines_that(config, false);
}

Plan plan_for_machines(const Plan& plan, int64_t machines, int64_t machine) {
  Plan part = plan;
  Config& config = part.config;
  config.machine_rank = machine;
  if (!is_elastic(plan.config)) return part;
  TrainingConfig& training = config.training;
  if (training.global_batch_size == 0)
    training.global_batch_size =
        training.per_device_train_batch_size * training.gradient_accumulation_steps * plan.data_ranks();
  if (machines == config.num_machines) return part;
  const auto mesh = mesh_of(config, machines);
  require(mesh.has_value(), "a mesh for {} of {} machines", machines, config.num_machines);
  if (config.parallelism_config) config.parallelism_config = mesh;
  config.num_processes = config.num_processes / config.num_machines * machines;
  config.num_machines = machines;
  const std::string origin = fmt::format("{} of {} machines", machines, plan.config.num_machines);
  for (const char* option : {"num_machines", "num_processes"}) part.origins[option] = origin;
  return part;
}

}  // namespace trainer::config
