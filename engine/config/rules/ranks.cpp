// How many ranks there are, where, and how they share the work.
#include "engine/config/rules/groups.h"

#include <algorithm>
#include <filesystem>

#include <fmt/ranges.h>

#include "engine/config/device.h"
#include "engine/config/judge.h"
#include "engine/config/machines.h"

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
    judge.refuse("devices", "devices is required when distributed_type is DATA_PARALLEL: as [cpu, cpu]");
  for (const std::string& name : config.devices)
    if (name != "cpu")
      judge.refuse(
          "devices",
          "devices: {} is not supported: the devices of DATA_PARALLEL are of the CPU; MULTI_GPU trains on GPUs",
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
                 "training.ddp_backend is mpi and num_machines is {}: MPI's ranks are started on one machine; between "
                 "machines say gloo",
                 config.num_machines);
  if (config.machine_rank >= config.num_machines)
    judge.refuse("machine_rank", "machine_rank is {}, but num_machines is {}: machines are numbered from 0",
                 config.machine_rank, config.num_machines);
  if (config.main_process_ip.empty())
    judge.refuse("main_process_ip", "main_process_ip is required when num_machines is {}: the address of machine 0",
                 config.num_machines);
  if (config.main_process_ip == "0.0.0.0" || config.main_process_ip == "::")
    judge.refuse("main_process_ip",
                 "main_process_ip is {}, which is every interface: give the address at which the other machines reach "
                 "machine 0",
                 config.main_process_ip);
  if (config.main_process_port == 0 && judge.is_set("main_process_port"))
    judge.refuse("main_process_port",
                 "main_process_port is 0, and num_machines is {}: machines meet at a port that all of them know; give "
                 "one, or leave it out for 29500",
                 config.num_machines);
  if (config.num_processes % config.num_machines != 0)
    judge.refuse(
        "num_processes",
        "num_processes is {} on {} machines: it counts the ranks of all of them, and every machine runs equally "
        "many (--nproc_per_node counts those of one)",
        config.num_processes, config.num_machines);
}

void range_of_machines(const Config& config, Judge& judge) {
  if (judge.failed("num_machines")) return;
  const auto [key, value] = judge.asked_by("min_machines", "min_machines", std::to_string(config.min_machines));
  if (config.min_machines > config.num_machines && key == "num_machines")
    return judge.refuse("min_machines", "num_machines is {}: the smaller number comes first", value);
  if (config.num_machines <= 1) return;
  if (config.min_machines > config.num_machines)
    return judge.refuse("min_machines", "min_machines is {}, but num_machines is {}: it can't be more",
                        config.min_machines, config.num_machines);
  const std::vector<int64_t> unusable = unusable_machines(config);
  if (unusable.empty() || judge.failed("num_processes")) return;
  judge.warn("num_machines",
             "the run goes on with {} of its {} machines, but not with {}: their ranks can't be laid out as the sizes "
             "of the mesh ask",
             fmt::join(usable_machines(config), " or "), config.num_machines, fmt::join(unusable, " or "));
}

void device(const Config& config, Judge& judge) {
  if (judge.failed("use_cpu") || judge.failed("training.ddp_backend")) return;
  const DdpBackend backend = config.training.ddp_backend;
  if (!asks_for_gpus(config)) {
    if (backend == DdpBackend::kNccl)
      judge.refuse(
          "training.ddp_backend",
          "training.ddp_backend is nccl, which carries tensors of NVIDIA's GPUs, but distributed_type {} trains "
          "on the CPU: say gloo or mpi",
          name_of(config.distributed_type));
    return;
  }
  const std::string lacking = lacking_for_gpus(config);
  if (config.distributed_type == DistributedType::kNo) {  // Accelerate too trains on the CPU where there is no GPU
    if (!lacking.empty() && std::filesystem::exists("/dev/nvidia0"))
      judge.warn("use_cpu", "use_cpu is false, but {}: training runs on the CPU", lacking);
    return;
  }
  const auto [key, value] = type_as_given(config, judge);
  if (!lacking.empty())
    judge.refuse_run(
        "distributed_type",
        "{} {} with use_cpu false trains on GPUs, and {}: --cpu (or use_cpu: true) rehearses it on the CPU", key, value,
        lacking);
  if (backend == DdpBackend::kMpi)
    judge.refuse(
        "training.ddp_backend",
        "training.ddp_backend is mpi, which carries tensors of the CPU, but {} {} with use_cpu false trains on "
        "GPUs: say nccl or gloo",
        key, value);
}

/// The number of a GPU, or its name for CUDA: "GPU-8a56…", "MIG-…".
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
      return judge.refuse("gpu_ids", "gpu_ids is {}, and '{}' is no number of a GPU: say 0,2 or all", shown(given),
                          shown(id));
    if (std::count(ids.begin(), ids.end(), id) > 1)
      return judge.refuse("gpu_ids", "gpu_ids is {}, which names GPU {} twice: each rank needs one of its own", given,
                          id);
  }
  if (!asks_for_gpus(config) || judge.failed("distributed_type") || judge.failed("num_processes")) return;
  const int64_t needed = gpus_needed(config);
  if (std::ssize(ids) < needed)
    return judge.refuse("gpu_ids",
                        "gpu_ids is {}, which is {} GPU{}, but each machine runs {} ranks, and each needs one: name {} "
                        "GPUs, or set num_processes to {}",
                        given, ids.size(), ids.size() == 1 ? "" : "s", needed, needed,
                        std::ssize(ids) * config.num_machines);
  if (!lacking_for_gpus(config).empty()) return;  // and that has been said
  if (const std::string why = unusable_gpu_ids(config, gpus_of_machine()); !why.empty())
    judge.refuse_run("gpu_ids", "gpu_ids is {}, {}", given, why);
}

void offload(const Config& config, Judge& judge) {
  const FsdpConfig& fsdp = config.fsdp_config;
  const bool asked = config.distributed_type == DistributedType::kFsdp ||
                     fsdp.sharding_strategy == ShardingStrategy::kNoShard;  // which is MULTI_GPU by now
  if (!fsdp.offload_params || !asked || !asks_for_gpus(config)) return;
  const std::string path = "fsdp_config.fsdp_offload_params";
  const auto [key, value] = judge.asked_by(path, path, "true");
  judge.refuse(
      path,
      "{} is {}, but what is trained on GPUs stays there: nothing moves to the host. Leave it out "
      "(--fsdp_offload_params false does), and see with `trainer check --gpu_memory N` what fits; --cpu trains in the "
      "host's memory",
      key, value);
}

/// What is given must be all ranks once it says into how many shards a copy of the model is cut; before that, the other
/// ranks are further shards or copies, so it must divide them.
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
    product *= std::max<int64_t>(1, size);  // one below 1 is refused by its own option
    if (size > 1 && key.empty()) key = name;
  }
  const std::string path = "parallelism_config." + key;
  if (mesh.dp_shard_size > 1 && product != ranks) {
    judge.refuse(path, "the sizes of parallelism_config multiply to {}, but num_processes is {}: make them equal",
                 product, ranks);
  } else if (ranks % product != 0) {
    const auto [asked, value] = judge.asked_by(path, key, std::to_string(product));
    if (value == std::to_string(product))
      judge.refuse(path, "{} is {}, but num_processes is {}: it must be a multiple of that", asked, value, ranks);
    else
      judge.refuse(
          path,
          "the sizes of parallelism_config multiply to {}, but num_processes is {}: it must be a multiple of that",
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
               "{} is {}: DeepSpeed's scheme, which exchanges heads for rows, is not there; parallelism_config_cp_size "
               "spreads a sequence over ranks",
               asked, value);
}

void pipeline(const Config& config, Judge& judge) {
  if (!config.parallelism_config || config.parallelism_config->pp_size <= 1) return;
  const std::string option = "parallelism_config_pp_size", path = "parallelism_config." + option;
  const auto [asked, value] = judge.asked_by(path, option, std::to_string(config.parallelism_config->pp_size));
  if (config.parallelism_config->pp_chunks > 1 && config.parallelism_config->pp_last_blocks > 0)
    judge.refuse("parallelism_config.parallelism_config_pp_chunks",
                 "parallelism_config_pp_chunks is {}, but the last stage is to have {} layers: give one of them",
                 config.parallelism_config->pp_chunks, config.parallelism_config->pp_last_blocks);
}

/// Where ranks share each sequence.
void context(const Config& config, Judge& judge) {
  if (!config.parallelism_config || config.parallelism_config->cp_size <= 1) return;
  const std::string option = "parallelism_config_cp_size", path = "parallelism_config." + option;
  const auto [asked, value] = judge.asked_by(path, option, std::to_string(config.parallelism_config->cp_size));
  if (config.parallelism_config->pp_size > 1)
    judge.refuse(
        path,
        "{} is {}, but parallelism_config_pp_size is {}: the stages of a pipeline pass on whole sequences; one "
        "of them must be 1",
        asked, value, config.parallelism_config->pp_size);
  if (config.data.task != Task::kCausalLm)
    judge.refuse(path,
                 "{} is {}, but data.task is {}: only where a token sees those before it, as in causal_lm, can ranks "
                 "share a sequence",
                 asked, value, name_of(config.data.task));
}

}  // namespace

std::vector<Rule> rules_of_ranks() {
  return {
      {"distribution-given", "How ranks share the work is never guessed.", distribution},
      {"ranks-fit-distribution", "One process for NO; a number of ranks for everything else.", ranks},
      {"devices-given", "DATA_PARALLEL runs one process on several devices, which the file names.", devices},
      {"machines-fit", "Every machine has a number, knows machine 0's address, and runs equally many ranks.", machines},
      {"range-of-machines", "A run that outlives the loss of machines says how few are enough.", range_of_machines},
      {"device-is-there", "What asks for GPUs never runs on a CPU unless the file or --cpu says so.", device},
      {"gpus-fit", "Ranks run on the GPUs that the file names, one each, and on nobody else's.", gpus},
      {"offload-is-there", "What is to be kept on the host is kept there, or the run isn't started.", offload},
      {"mesh-fits-ranks", "The sizes of the mesh multiply to the number of ranks.", mesh},
      {"context-fits", "What ranks share of a sequence, every one of them can work on.", context},
      {"pipeline-fits", "A pipeline's stages are whole.", pipeline},
  };
}

}  // namespace trainer::config
