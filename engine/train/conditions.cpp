#include "engine/train/conditions.h"

#include <cstdlib>

#include <fmt/format.h>

#include <ATen/Context.h>
#include <ATen/Version.h>
#include <torch/headeronly/version.h>

#include "engine/base/errors.h"
#include "engine/config/names.h"
#include "engine/config/tables.h"

namespace trainer::train {

Conditions conditions_of(const config::Config& config, int64_t ranks) {
  const config::TrainingConfig& t = config.training;
  const config::ParallelismConfig p = config.parallelism_config.value_or(config::ParallelismConfig{});
  Conditions conditions{{"ranks", std::to_string(ranks)},
                        {"num_machines", std::to_string(config.num_machines)},
                        {"distributed_type", std::string(config::name_of(config.distributed_type))},
                        {"mixed_precision", std::string(config::name_of(config.mixed_precision))},
                        {"threads of a rank", std::to_string(at::get_num_threads())},
                        {"per_device_train_batch_size", std::to_string(t.per_device_train_batch_size)},
                        {"training.max_tokens", std::to_string(t.max_tokens)},
                        {"dp_replicate_size", std::to_string(p.dp_replicate_size)},
                        {"dp_shard_size", std::to_string(p.dp_shard_size)},
                        {"tp_size", std::to_string(p.tp_size)},
                        {"tp_sequence_parallel", p.tp_sequence_parallel ? "true" : "false"},
                        {"cp_size", std::to_string(p.cp_size)},
                        {"pp_size", std::to_string(p.pp_size)},
                        {"pp_chunks", std::to_string(p.pp_chunks)},
                        {"instructions of the CPU", at::get_cpu_capability()},
                        {"libtorch", TORCH_VERSION}};
  if (config.distributed_type == config::DistributedType::kFsdp) {
    conditions["fsdp_sharding_strategy"] = config::name_of(config.fsdp_config.sharding_strategy);
    conditions["fsdp_reduce_dtype"] = config.fsdp_config.reduce_dtype;
  }
  if (config::uses_ddp(config)) {
    conditions["ddp_bucket_cap_mb"] = fmt::format("{:g}", t.ddp_bucket_cap_mb);
    conditions["ddp_comm_hook"] = config::name_of(t.ddp_comm_hook);
  }
  return conditions;
}

void use_deterministic_algorithms() {
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);
  at::globalContext().setDeterministicAlgorithms(true, false);
  at::globalContext().setDeterministicCuDNN(true);
  at::globalContext().setBenchmarkCuDNN(false);
}

void require_same_conditions(const Conditions& before, const Conditions& now, const std::string& folder) {
  std::string differing;
  for (const auto& [name, value] : before)
    if (const auto its = now.find(name); its != now.end() && its->second != value)
      differing += fmt::format("{}{} was {} and is {}", differing.empty() ? "" : "; ", name, value, its->second);
  if (differing.empty()) return;
  throw ConfigError(
      "{}: deterministic is true, but a run resumed here would not be equal bit for bit: {}.\n  Resume under the same "
      "conditions, or set deterministic: false.",
      folder, differing);
}

}  // namespace trainer::train
