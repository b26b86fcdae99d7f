#include <unistd.h>

#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/base/uncaught.h"
#include "engine/base/usable_cpus.h"
#include "engine/checkpoint/signing_key.h"
#include "engine/config/machine/device.h"
#include "engine/config/machine/gpu_cards.h"
#include "engine/config/machine/gpu_memory.h"
#include "engine/config/names.h"
#include "engine/config/plan/handover.h"
#include "engine/dist/accelerator.h"
#include "engine/prepare/inputs.h"
#include "engine/train/batch_size.h"
#include "engine/train/build.h"
#include "engine/train/check/check_report.h"
#include "engine/train/device_layers.h"
#include "engine/train/memory_fit.h"
#include "engine/train/parallelism.h"
#include "engine/worker/commands.h"

namespace trainer::worker {
namespace {

/// Ranks that share a core wait for each other at every collective; "" when each rank has its own.
std::string cores_warning(const config::Plan& plan) {
  const config::Config& config = plan.config;
  const int64_t cores = usable_cpus(), ranks = config::ranks_per_machine(config);
  if (ranks <= cores) return "";
  return fmt::format("num_processes is {}, so {} ranks share the {} cores of this machine: {} would be as fast",
                     config.num_processes, ranks, cores, cores * std::max<int64_t>(1, config.num_machines));
}

/// The report; errors name the place of the option they are about.
train::CheckReport located_report(const config::Plan& plan, const std::optional<config::GpuMemory>& gpu,
                                  const std::optional<train::Cluster>& cluster) {
  try {
    if (!cluster)  // for another machine, the keys may be there only
      checkpoint::check_keys(plan.config.checkpoint.sign, plan.config.checkpoint.trusted_key);
    return train::check_report(plan, gpu, cluster);
  } catch (const ConfigError& error) {
    throw ConfigError("{}", config::located(plan, error.what()));
  }
}

/// The smallest of this machine's GPUs that ranks train on; nothing when they train on the CPU. Without NVML, only CUDA
/// knows the sizes.
std::optional<config::GpuMemory> gpu_here(const config::Config& config) {
  if (!config::trains_on_gpus(config) || !config::lacking_for_gpus(config).empty()) return {};
  std::optional<config::GpuMemory> smallest;
  const auto take = [&](const std::string& name, int64_t bytes) {
    if (!smallest || bytes < smallest->bytes) smallest = {name, bytes};
  };
  for (const VisibleGpu& one : config::gpus_of_ranks(config, gpus_here(), cuda_visible_devices()))
    take(one.gpu->name, one.total_bytes());
  if (smallest && smallest->bytes > 0) return smallest;
  smallest.reset();
  const dist::Accelerator& accelerator = *dist::find_accelerator();
  for (int i = 0; i < accelerator.count(); ++i) {
    const dist::DeviceFacts facts = accelerator.facts(i);
    take(facts.name, facts.total_bytes);
  }
  return smallest;
}

/// Whether ranks of this machine will run cuDNN's attention: by the compute capability of its GPUs, if NVML knows it.
bool has_cudnn_here(const config::Config& config) {
  if (!config::trains_on_gpus(config)) return false;
  const std::vector<VisibleGpu> gpus = config::gpus_of_ranks(config, gpus_here(), cuda_visible_devices());
  return !gpus.empty() && std::all_of(gpus.begin(), gpus.end(), [](const VisibleGpu& one) {
    return dist::prefers_cudnn_attention(one.gpu->capability_major);
  });
}

/// What `check` is asked to plan for.
struct Target {
  std::string gpu_memory, device, network;
};

/// Refuses a GPU for a plan that trains on the CPU.
void check_uses_gpus(const config::Config& config, const std::string& flag, const std::string& given) {
  if (config::asks_for_gpus(config)) return;
  throw ConfigError(
      "{} is {}, but {} trains on the CPU: remove one of them", flag, given,
      config.use_cpu ? "use_cpu: true" : fmt::format("distributed_type {}", config::name_of(config.distributed_type)));
}

/// The GPU of each rank: the memory that `--gpu_memory` names, else that of the card of `--device`, else this
/// machine's.
std::optional<config::GpuMemory> gpu_of(const config::Config& config, const Target& target) {
  if (!target.gpu_memory.empty()) {
    check_uses_gpus(config, "--gpu_memory", target.gpu_memory);
    return config::gpu_memory_named(target.gpu_memory);
  }
  if (target.device.empty()) return gpu_here(config);
  const config::GpuCard card = config::card_named("--device", target.device);
  return config::GpuMemory{card.name, card.bytes()};
}

/// The GPUs that the speed is predicted for; nothing without `--device`.
std::optional<train::Cluster> cluster_of(const config::Config& config, const Target& target) {
  if (target.device.empty()) {
    if (target.network.empty()) return {};
    throw ConfigError("--net is {}, but only --device predicts a run's speed: add it, as in --device H100",
                      target.network);
  }
  check_uses_gpus(config, "--device", target.device);
  train::Cluster cluster{config::card_named("--device", target.device)};
  cluster.gpus_per_machine = config::ranks_per_machine(config);
  if (!target.network.empty()) cluster.network = train::network_named(target.network);
  return cluster;
}

}  // namespace

int fit_command(const std::vector<std::string>& args) {
  try {
    config::Plan plan = config::inherited_plan();
    train::set_cudnn_in_dry_runs(has_cudnn_here(plan.config));
    if (plan.config.training.auto_find_batch_size) plan = train::with_batch_size(plan, 1);
    train::check_memory(plan, prepare::load_inputs(plan), std::stoll(args.at(0)));
    return kDone;
  } catch (const std::exception& error) {
    return end_uncaught(error, STDOUT_FILENO);
  }
}

int check_command(const std::vector<std::string>& args) {
  bool json = false, brief = false;
  Target target;
  CLI::App app("Check a plan.", "check");
  app.add_flag("--json", json);
  app.add_flag("--brief", brief);  // for the wizard: {"text", "updates"}
  app.add_option("--gpu_memory", target.gpu_memory);
  app.add_option("--device", target.device);
  app.add_option("--net", target.network);
  try {
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
  } catch (const CLI::ParseError& error) {
    throw ConfigError("`trainer-worker check`: {}", error.what());
  }
  config::Plan plan = config::inherited_plan();
  if (target.device.empty()) check_writable(plan.config.output_dir);  // for another machine, it may be there only
  const auto cluster = cluster_of(plan.config, target);
  train::set_cudnn_in_dry_runs(cluster ? cluster->card.cudnn : has_cudnn_here(plan.config));
  const train::CheckReport report = located_report(plan, gpu_of(plan.config, target), cluster);
  if (!report.on_gpus)
    for (std::string warning : {train::precision_warning(plan), cores_warning(plan)})
      if (!warning.empty()) plan.warnings.push_back(std::move(warning));
  if (!report.warning.empty()) plan.warnings.push_back(report.warning);
  if (brief) {
    const nlohmann::json page{{"text", train::to_brief(report, plan)}, {"updates", report.run.length.updates}};
    fmt::print("{}\n", page.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  } else if (json) {
    fmt::print("{}\n", train::to_json(report, plan).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    fmt::print("{}", train::to_text(report, plan));
  }
  if (report.gpu && !report.gpu->fits) throw ConfigError("{}", train::too_much_memory(report, plan));
  if (json || brief) return kDone;
  fmt::print("\nNothing is wrong with {}{}.\n", plan.source,
             report.missing.empty() ? "" : ", but `trainer launch` needs what is listed as missing");
  return kDone;
}

}  // namespace trainer::worker
