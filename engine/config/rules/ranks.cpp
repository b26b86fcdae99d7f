// Rules about ranks, machines, devices and parallelism.
#include "engine/config/rules/groups.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "engine/base/gpu_library.h"
#include "engine/base/listed.h"
#include "engine/config/machine/device.h"
#include "engine/config/machine/machines.h"
#include "engine/config/rules/judge.h"

namespace trainer::config {

std::pair<std::string, std::string> type_as_given(const Config& config, const Judge& judge) {
  return judge.asked_by("distributed_type", "distributed_type", name_of(config.distributed_type));
}

namespace {

void distribution(const Config& config, Judge& judge) {
  if (!judge.is_set("distributed_type")) {
    judge.refuse("distributed_type", "distributed_type is required: one of {}",
                 fmt::join(kind_of<DistributedType>().choices, ", "));
  }
}

void ranks(const Config& config, Judge& judge) {
  if (judge.failed("distributed_type")) return;
  const bool given = judge.is_set("num_processes");
  const bool devices = config.distributed_type == DistributedType::kDataParallel;
  const bool alone = config.distributed_type == DistributedType::kNo || devices;
  if (alone && given && config.num_processes > 1) {
    judge.refuse("num_processes",
                 "num_processes is {}, but distributed_type {} runs one process: use MULTI_CPU or FSDP",
                 config.num_processes, name_of(config.distributed_type));
  } else if (!alone && !given) {
    const auto [key, value] = type_as_given(config, judge);
    judge.refuse("num_processes", "num_processes is required when {} is {}", key, value);
  }
}

void devices(const Config& config, Judge& judge) {
  if (config.distributed_type != DistributedType::kDataParallel) return;
  if (config.devices.empty())
    judge.refuse("devices", "devices is required when distributed_type is DATA_PARALLEL: for example [cpu, cpu]");
  for (const std::string& name : config.devices)
    if (name != "cpu")
      judge.refuse(
          "devices",
          "devices: {} is not supported: DATA_PARALLEL runs only on cpu devices; use MULTI_GPU to train on GPUs",
          shown(name));
}

void machines(const Config& config, Judge& judge) {
  if (config.num_machines <= 1 || judge.failed("num_machines")) return;
  if (config.distributed_type == DistributedType::kNo && judge.is_set("distributed_type")) {
    judge.refuse("num_machines", "num_machines is {}, but distributed_type NO runs one process: use MULTI_CPU or FSDP",
                 config.num_machines);
    return;
  }
  if (config.training.ddp_backend == DdpBackend::kMpi)
    judge.refuse("training.ddp_backend",
                 "training.ddp_backend is mpi and num_machines is {}: MPI ranks are started on a single machine; for "
                 "several machines use gloo",
                 config.num_machines);
  if (config.machine_rank >= config.num_machines)
    judge.refuse("machine_rank", "machine_rank is {}, but num_machines is {}: machines are numbered from 0",
                 config.machine_rank, config.num_machines);
  if (config.main_process_ip.empty())
    judge.refuse_run("main_process_ip", "main_process_ip is required when num_machines is {}: the address of machine 0",
                     config.num_machines);
  if (config.main_process_ip == "0.0.0.0" || config.main_process_ip == "::")
    judge.refuse("main_process_ip",
                 "main_process_ip is {}, which means every interface: set the address at which the other machines "
                 "reach machine 0",
                 config.main_process_ip);
  if (config.main_process_port == 0 && judge.is_set("main_process_port"))
    judge.refuse("main_process_port",
                 "main_process_port is 0, and num_machines is {}: machines rendezvous at a port that all of them know; "
                 "set one, or leave it out for 29500",
                 config.num_machines);
  if (config.num_processes % config.num_machines != 0)
    judge.refuse(
        "num_processes",
        "num_processes is {} on {} machines: it counts the ranks of all machines, and every machine must run the same "
        "number (--nproc_per_node counts those of one machine)",
        config.num_processes, config.num_machines);
}

void range_of_machines(const Config& config, Judge& judge) {
  if (judge.failed("num_machines")) return;
  const auto [key, value] = judge.asked_by("min_machines", "min_machines", std::to_string(config.min_machines));
  if (config.min_machines > config.num_machines && key == "num_machines")
    return judge.refuse("min_machines", "num_machines is {}: the smaller number comes first", value);
  if (config.num_machines <= 1) return;
  if (config.min_machines > config.num_machines)
    return judge.refuse("min_machines", "min_machines is {}, but num_machines is {}: min_machines must not be larger",
                        config.min_machines, config.num_machines);
  const std::vector<int64_t> unusable = unusable_machines(config);
  if (unusable.empty() || judge.failed("num_processes")) return;
  judge.warn(
      "num_machines",
      "the run can continue with {} of its {} machines, but not with {}: their ranks don't fit the sizes of the mesh",
      fmt::join(usable_machines(config), " or "), config.num_machines, fmt::join(unusable, " or "));
}

void replicas(const Config& config, Judge& judge) {
  constexpr const char* kPath = "checkpoint.replicas";
  const int64_t replicas = config.checkpoint.replicas, machines = config.num_machines;
  if (replicas <= machines || judge.failed("num_machines")) return;
  constexpr const char* kMessage =
      "checkpoint.replicas is {}, but num_machines is {}: each copy of a checkpoint needs its own machine";
  // A file without num_machines may get it from --nnodes.
  if (judge.is_set("num_machines"))
    judge.refuse(kPath, kMessage, replicas, machines);
  else
    judge.refuse_run(kPath, kMessage, replicas, machines);
}

void device(const Config& config, Judge& judge) {
  if (judge.failed("use_cpu") || judge.failed("training.ddp_backend")) return;
  const DdpBackend backend = config.training.ddp_backend;
  if (!asks_for_gpus(config)) {
    if (backend == DdpBackend::kNccl)
      judge.refuse(
          "training.ddp_backend",
          "training.ddp_backend is nccl, which works only on NVIDIA GPUs, but distributed_type {} trains on the CPU: "
          "use gloo or mpi",
          name_of(config.distributed_type));
    return;
  }
  const std::string lacking = lacking_for_gpus(config);
  if (config.distributed_type == DistributedType::kNo) {  // like Accelerate, trains on the CPU if there is no GPU
    if (!lacking.empty() && !gpus_here().gpus.empty())
      judge.warn("use_cpu", "use_cpu is false, but {}: training runs on the CPU", lacking);
    return;
  }
  const auto [key, value] = type_as_given(config, judge);
  if (!lacking.empty() && !driver_fails())
    judge.refuse_run(
        "distributed_type",
        "{} {} with use_cpu false trains on GPUs, and {}: --cpu (or use_cpu: true) trains on the CPU instead", key,
        value, lacking);
  if (backend == DdpBackend::kMpi)
    judge.refuse("training.ddp_backend",
                 "training.ddp_backend is mpi, which works only on the CPU, but {} {} with use_cpu false trains on "
                 "GPUs: use nccl or gloo",
                 key, value);
}

/// Whether `id` is the index of a GPU, or its name for CUDA: "GPU-8a56…", "MIG-…".
bool is_gpu(const std::string& id) {
  const bool number = !id.empty() && id.size() < 5 && id.find_first_not_of("0123456789") == std::string::npos;
  return number || id.starts_with("GPU-") || id.starts_with("MIG-");
}

void gpus(const Config& config, Judge& judge) {
  if (!chooses_gpus(config) || judge.failed("gpu_ids")) return;
  const std::vector<std::string>& ids = config.gpu_ids;
  const std::string given = fmt::format("{}", fmt::join(ids, ","));
  for (const std::string& id : ids) {
    if (!is_gpu(id))
      return judge.refuse("gpu_ids", "gpu_ids is {}, and '{}' is not the index of a GPU: use for example 0,2 or all",
                          shown(given), shown(id));
    if (std::count(ids.begin(), ids.end(), id) > 1)
      return judge.refuse("gpu_ids", "gpu_ids is {}, which lists GPU {} twice: each rank needs its own GPU", given, id);
  }
  if (!asks_for_gpus(config) || judge.failed("distributed_type") || judge.failed("num_processes")) return;
  const int64_t needed = gpus_needed(config);
  if (std::ssize(ids) < needed)
    return judge.refuse("gpu_ids",
                        "gpu_ids is {}, which is {}, but each machine runs {} ranks, and each needs one: list {} "
                        "GPUs, or set num_processes to {}",
                        given, counted(ids.size(), "GPU", "GPUs"), needed, needed,
                        std::ssize(ids) * config.num_machines);
  if (!lacking_for_gpus(config).empty()) return;  // reported already
  if (const std::string why = unusable_gpu_ids(config, gpus_here(), cuda_visible_devices()); !why.empty())
    judge.refuse_run("gpu_ids", "gpu_ids is {}, {}", given, why);
}

void offload(const Config& config, Judge& judge) {
  const FsdpConfig& fsdp = config.fsdp_config;
  const std::string path = "fsdp_config.fsdp_offload_params";
  if (!fsdp.offload_params || fsdp.sharding_strategy != ShardingStrategy::kNoShard || !asks_for_gpus(config)) return;
  judge.refuse(
      path,
      "{} is true, but fsdp_sharding_strategy is NO_SHARD, which keeps the whole model on every GPU: only shards "
      "are offloaded. Use FULL_SHARD, or leave it out",
      path);
}

/// If dp_shard_size is set, the sizes must multiply to the number of ranks. Otherwise the remaining ranks are further
/// shards or replicas, so the product must divide the number of ranks.
void sizes_fit_ranks(const Config& config, Judge& judge) {
  const ParallelismConfig& mesh = *config.parallelism_config;
  const std::pair<const char*, int64_t> sizes[] = {{"parallelism_config_dp_shard_size", mesh.dp_shard_size},
                                                   {"parallelism_config_dp_replicate_size", mesh.dp_replicate_size},
                                                   {"parallelism_config_tp_size", mesh.tp_size},
                                                   {"parallelism_config_cp_size", mesh.cp_size},
                                                   {"parallelism_config_pp_size", mesh.pp_size}};
  const int64_t ranks = std::max<int64_t>(1, config.num_processes);
  int64_t product = 1;
  std::string key;
  for (const auto& [name, size] : sizes) {
    product *= std::max<int64_t>(1, size);  // a size below 1 is refused by its own option
    if (size > 1 && key.empty()) key = name;
  }
  const std::string path = "parallelism_config." + key;
  if (mesh.dp_shard_size > 1 && product != ranks) {
    judge.refuse(path, "the sizes of parallelism_config multiply to {}, but num_processes is {}: make them equal",
                 product, ranks);
  } else if (ranks % product != 0) {
    const auto [asked, value] = judge.asked_by(path, key, std::to_string(product));
    if (value == std::to_string(product))
      judge.refuse(path, "{} is {}, but num_processes is {}: num_processes must be a multiple of it", asked, value,
                   ranks);
    else
      judge.refuse(path,
                   "the sizes of parallelism_config multiply to {}, but num_processes is {}: num_processes must be a "
                   "multiple of it",
                   product, ranks);
  }
}

void mesh(const Config& config, Judge& judge) {
  if (!config.parallelism_config) return;
  const ParallelismConfig& mesh = *config.parallelism_config;
  if (mesh.sp_size <= 1) return sizes_fit_ranks(config, judge);
  const std::string option = "parallelism_config_sp_size", path = "parallelism_config." + option;
  const auto [asked, value] = judge.asked_by(path, option, std::to_string(mesh.sp_size));
  judge.refuse(path,
               "{} is {}: DeepSpeed's scheme, which exchanges heads for rows, is not supported; use "
               "parallelism_config_cp_size to split sequences over ranks",
               asked, value);
}

void pipeline(const Config& config, Judge& judge) {
  if (!config.parallelism_config || config.parallelism_config->pp_size <= 1) return;
  const std::string option = "parallelism_config_pp_size", path = "parallelism_config." + option;
  const auto [asked, value] = judge.asked_by(path, option, std::to_string(config.parallelism_config->pp_size));
  if (config.parallelism_config->pp_chunks > 1 && config.parallelism_config->pp_last_blocks > 0)
    judge.refuse(
        "parallelism_config.parallelism_config_pp_chunks",
        "parallelism_config_pp_chunks is {}, but parallelism_config_pp_last_blocks is {}: set only one of them",
        config.parallelism_config->pp_chunks, config.parallelism_config->pp_last_blocks);
}

/// Context parallelism.
void context(const Config& config, Judge& judge) {
  if (!config.parallelism_config || config.parallelism_config->cp_size <= 1) return;
  const std::string option = "parallelism_config_cp_size", path = "parallelism_config." + option;
  const auto [asked, value] = judge.asked_by(path, option, std::to_string(config.parallelism_config->cp_size));
  if (config.parallelism_config->pp_size > 1)
    judge.refuse(path,
                 "{} is {}, but parallelism_config_pp_size is {}: pipeline stages exchange whole sequences; one of "
                 "them must be 1",
                 asked, value, config.parallelism_config->pp_size);
  if (config.data.task != Task::kCausalLm)
    judge.refuse(path, "{} is {}, but data.task is {}: context parallelism needs a causal model, as in causal_lm",
                 asked, value, name_of(config.data.task));
}

}  // namespace

std::vector<Rule> rules_of_ranks() {
  return {
      {"distribution-given", "The parallelism is never guessed.", distribution},
      {"ranks-fit-distribution", "One process for NO; a number of ranks for everything else.", ranks},
      {"devices-given", "DATA_PARALLEL runs one process on the devices listed in the file.", devices},
      {"machines-fit", "Every machine has a rank, knows machine 0's address, and runs the same number of ranks.",
       machines},
      {"range-of-machines", "An elastic run has a valid minimum number of machines.", range_of_machines},
      {"replicas-fit", "Each copy of a checkpoint is on its own machine.", replicas},
      {"device-is-there", "A configuration for GPUs never runs on the CPU unless the file or --cpu requests it.",
       device},
      {"gpus-fit", "Ranks run only on the GPUs listed in the file, one per rank.", gpus},
      {"offload-has-shards", "Only shards can be offloaded to the host.", offload},
      {"mesh-fits-ranks", "The sizes of the mesh multiply to the number of ranks.", mesh},
      {"context-fits", "Context parallelism needs causal_lm and no pipeline.", context},
      {"pipeline-fits", "The stages of a pipeline are set in one way.", pipeline},
  };
}

}  // namespace trainer::config
