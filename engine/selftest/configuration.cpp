#include "engine/selftest/configuration.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "engine/config/names.h"
#include "engine/selftest/matrix.h"
#include "engine/selftest/random_samples.h"

namespace trainer::selftest {
namespace {

Strategy strategy_of(const config::Config& user) {
  Strategy strategy;
  strategy.name = strategy_name(user);
  strategy.ranks = static_cast<int>(user.num_processes);
  strategy.type = user.distributed_type;
  strategy.sharding = user.fsdp_config.sharding_strategy;
  strategy.degrees = user.parallelism_config.value_or(config::ParallelismConfig{});
  strategy.devices = user.devices;
  strategy.offload = user.fsdp_config.offload_params;
  return strategy;
}

/// The plan of a setting with what a Setting doesn't have.
config::Plan as_configured(const Setting& setting, const config::Config& user) {
  config::Plan plan = plan_of(setting);
  config::Config& c = plan.config;
  c.use_cpu = user.use_cpu;
  c.num_machines = user.num_machines;
  c.machine_rank = user.machine_rank;
  c.gpu_ids = user.gpu_ids;
  c.mixed_precision = user.mixed_precision;
  c.deterministic = user.deterministic;
  c.fsdp_config = user.fsdp_config;
  c.fsdp_config.transformer_layer_cls_to_wrap.clear();  // names of another model's layers
  c.fsdp_config.min_num_params = std::min<int64_t>(user.fsdp_config.min_num_params, 1000);  // units in tiny models too
  c.training.activation_offloading = user.training.activation_offloading;
  c.training.saved_activations = user.training.saved_activations;
  c.training.ddp_backend = user.training.ddp_backend;
  c.training.tf32 = user.training.tf32;
  c.training.float32_matmul_precision = user.training.float32_matmul_precision;
  return plan;
}

/// Whether the configuration rounds to fewer bits than fp32 has, and results differ accordingly.
bool rounds(const config::Config& c) {
  return c.mixed_precision != config::MixedPrecision::kNo || c.training.tf32 ||
         c.training.float32_matmul_precision != config::MatmulPrecision::kHighest ||
         c.training.saved_activations != config::SavedActivations::kAsComputed ||
         c.fsdp_config.reduce_dtype != "float32";
}

config::Plan reference_of(const Setting& setting, const config::Config& user) {
  config::Plan plan = plan_of(setting.reference());
  plan.config.mixed_precision = user.mixed_precision;
  return plan;
}

}  // namespace

std::string strategy_name(const config::Config& config) {
  std::string name = config::name_of(config.distributed_type);
  if (config.distributed_type == config::DistributedType::kFsdp)
    name += fmt::format(" {}", config::name_of(config.fsdp_config.sharding_strategy));
  const auto degrees = config.parallelism_config.value_or(config::ParallelismConfig{});
  for (const auto& [size, key] : {std::pair(degrees.tp_size, "tp_size"), std::pair(degrees.cp_size, "cp_size"),
                                  std::pair(degrees.pp_size, "pp_size")})
    if (size > 1) name += fmt::format(", {} {}", key, size);
  if (config.mixed_precision == config::MixedPrecision::kFp16) name += " fp16";  // a setting names bf16 itself
  return name;
}

std::vector<ConfigurationCase> configuration_cases(const config::Plan& user) {
  const config::Config& c = user.config;
  const Strategy strategy = strategy_of(c);
  std::vector<ConfigurationCase> cases;
  for (const TinyModel& model :
       tiny_models_for(strategy.degrees.tp_size, strategy.degrees.pp_size * strategy.degrees.pp_chunks)) {
    if (!supports(model, strategy)) continue;
    for (const bool lora : {false, true}) {
      Setting setting{model, strategy, lora};
      setting.micro_batches = c.training.gradient_accumulation_steps > 1 || strategy.degrees.pp_size > 1 ? 2 : 1;
      setting.recompute = c.training.gradient_checkpointing || c.fsdp_config.activation_checkpointing;
      setting.bf16 = c.mixed_precision == config::MixedPrecision::kBf16;
      cases.push_back({setting, as_configured(setting, c), reference_of(setting, c)});
    }
  }
  return cases;
}

std::vector<Result> test_configuration(const std::vector<ConfigurationCase>& cases, dist::Comm& world,
                                       const std::function<void(const Result&)>& done) {
  using Clock = std::chrono::steady_clock;
  std::vector<Result> results;
  for (const ConfigurationCase& one : cases) {
    const auto samples = random_samples(one.setting.model);
    const auto start = Clock::now();
    const Outcome found = train(one.plan, samples, world);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (world.rank() == 0) {
      const auto alone = dist::solo_comm();
      const Outcome expected = train(one.reference, samples, *alone);
      const bool half = rounds(one.plan.config);
      results.push_back(
          {one.setting, difference(found, expected, half, one.setting.model.gradient_tolerance), seconds});
      done(results.back());
    }
    world.barrier();
  }
  return results;
}

}  // namespace trainer::selftest
