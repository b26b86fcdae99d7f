// Accelerate's questionnaire, in its words and order. Questions with only one possible answer in this build are left
// out (TPUs, mpirun, dynamo, fp8, which GPUs, NUMA, how machines find each other); Accelerate's default is written
// instead.
#include <algorithm>

#include "engine/config/wizard/asker.h"

namespace trainer::config {
namespace {

enum class MachineType { kNo, kMultiCpu, kMultiGpu };

const std::vector<std::string> kMachineTypes{"No distributed training", "multi-CPU", "multi-GPU"};

bool is_sharded(DistributedType type) {
  return type == DistributedType::kFsdp || type == DistributedType::kDeepspeed || type == DistributedType::kMegatronLm;
}

MachineType machine_type_of(const Config& config) {
  if (config.distributed_type == DistributedType::kMultiCpu) return MachineType::kMultiCpu;
  if (config.distributed_type == DistributedType::kMultiGpu) return MachineType::kMultiGpu;
  if (!is_sharded(config.distributed_type)) return MachineType::kNo;
  return config.use_cpu ? MachineType::kMultiCpu : MachineType::kMultiGpu;
}

MachineType ask_machine_type(Asker& ask) {
  const std::string& current = kMachineTypes[static_cast<std::size_t>(machine_type_of(ask.config()))];
  const std::string answer = ask.choice("Which type of machine are you using?", current, kMachineTypes,
                                        "No distributed training: one process, on one GPU or the CPU.\n"
                                        "multi-CPU: several processes that share this machine's cores, or machines "
                                        "without GPUs.\nmulti-GPU: one process for each GPU, on one or more machines.");
  return static_cast<MachineType>(std::find(kMachineTypes.begin(), kMachineTypes.end(), answer) -
                                  kMachineTypes.begin());
}

std::string no_such_machine(const Config& config) {
  return config.machine_rank < config.num_machines ? "" : "machines are numbered from 0";
}

/// The number of machines, the one that this file is for, and where they rendezvous.
void ask_machines(Asker& ask) {
  WizardDraft& draft = ask.draft();
  ask.option("num_machines",
             {.text = "How many different machines will you use (use more than 1 for multi-node training)?"});
  const int64_t machines = draft.config.num_machines;
  if (machines <= 1) {
    for (const char* const key : {"min_machines", "machine_rank", "main_process_ip", "main_process_port"})
      draft.erase(key);
    return;
  }
  std::vector<std::string> ranks;
  for (int64_t rank = 0; rank < machines; ++rank) ranks.push_back(std::to_string(rank));
  ask.option("machine_rank",
             {.text = "What is the rank of this machine?", .choices = std::move(ranks), .refuse = no_such_machine});
  ask.option("main_process_ip", {.text = "What is the IP address of the machine that will host the main process?"});
  ask.option("main_process_port",
             {.text = "What is the port you will use to communicate with the main process?", .fallback = "29500"});
  const Node* const near = draft.document.find("same_network");
  draft.put("same_network",
            encode(ask.yes("Are all the machines on the same local network? Answer `no` if nodes are on "
                           "the cloud and/or on different network hosts",
                           near == nullptr || parse_bool(near->text) != false,
                           "Accelerate's key same_network. It has no effect here: machines find each other by the "
                           "address of the main process.")));
}

void ask_device(Asker& ask, MachineType machine) {
  if (machine == MachineType::kNo) {
    const bool no_gpu = ask.machine().gpus.empty();
    ask.option("use_cpu", {.fallback = no_gpu ? "yes" : "no"});
  } else {
    ask.draft().assign("use_cpu", encode(machine == MachineType::kMultiCpu));
  }
}

/// The strategy, asked in Accelerate's order; the questions of the chosen one follow immediately.
DistributedType ask_strategy(Asker& ask, MachineType machine) {
  const DistributedType before = ask.config().distributed_type;
  // A file for GPUs that is run on the CPU keeps its strategy.
  const auto offered = [&](DistributedType type, bool usually) { return usually || before == type; };
  if (offered(DistributedType::kDeepspeed, machine != MachineType::kMultiCpu) &&
      ask.yes("Do you want to use DeepSpeed?", before == DistributedType::kDeepspeed,
              "Asks for ZeRO's stages, by DeepSpeed's names or its JSON. They run on the same code as\n"
              "FullyShardedDataParallel: ranks share weights, gradients and optimizer state.")) {
    ask_deepspeed(ask);
    const std::string launcher = "deepspeed_config.deepspeed_multinode_launcher";
    if (ask.config().num_machines > 1 && !ask.draft().has(launcher))
      ask.draft().put(launcher, Node::scalar("standard"));
    return DistributedType::kDeepspeed;
  }
  if (machine == MachineType::kNo) return DistributedType::kNo;
  if (ask.yes("Do you want to use FullyShardedDataParallel?", before == DistributedType::kFsdp,
              "yes: each rank holds a part of the weights, gradients and optimizer state: for\n"
              "models that don't fit into one rank's memory.\n"
              "no: each rank holds all of them (DDP), which communicates less.")) {
    ask_fsdp(ask);
    return DistributedType::kFsdp;
  }
  if (offered(DistributedType::kMegatronLm, machine == MachineType::kMultiGpu) &&
      ask.yes("Do you want to use Megatron-LM ?", before == DistributedType::kMegatronLm,
              "Splits each layer over several GPUs (tensor parallelism), and the layers over\n"
              "stages (pipeline parallelism): for very large models.")) {
    ask_megatron(ask);
    return DistributedType::kMegatronLm;
  }
  return machine == MachineType::kMultiCpu ? DistributedType::kMultiCpu : DistributedType::kMultiGpu;
}

/// Removes the keys of strategies that were not chosen, which an older file may have.
void settle_strategy(Asker& ask, DistributedType type) {
  WizardDraft& draft = ask.draft();
  if (type != DistributedType::kDeepspeed) draft.erase("deepspeed_config");
  if (type != DistributedType::kFsdp) draft.erase("fsdp_config");
  if (type != DistributedType::kMegatronLm) draft.erase("megatron_lm_config");
  if (type != DistributedType::kFsdp) draft.erase("parallelism_config");
  draft.assign("distributed_type", encode(type));
}

std::string unfit_number(const Config& config) {
  if (config.distributed_type == DistributedType::kMultiGpu && config.num_processes == 1)
    return "multi-GPU needs at least two GPUs; for one GPU go back and choose `No distributed training`";
  if (config.num_processes % config.num_machines != 0)
    return fmt::format("it counts the processes of all {} machines, and each machine must have the same number",
                       config.num_machines);
  return "";
}

void ask_processes(Asker& ask, MachineType machine) {
  WizardDraft& draft = ask.draft();
  const DistributedType type = draft.config.distributed_type;
  if (type == DistributedType::kNo) {
    draft.assign("num_processes", encode(int64_t{1}));
    return;
  }
  constexpr int64_t kMostByDefault = 8;
  const int64_t gpus = static_cast<int64_t>(ask.machine().gpus.size());
  const bool on_cpu = draft.config.use_cpu && machine != MachineType::kNo;
  const int64_t fitting = on_cpu ? std::min(ask.machine().cores, kMostByDefault) : gpus;
  const int64_t least = machine == MachineType::kNo ? 1 : 2;
  const char* const what = on_cpu ? "processes" : "GPU(s)";
  ask.option("num_processes", {.text = fmt::format("How many {} should be used for distributed training?", what),
                               .fallback = std::to_string(std::max(fitting, least) * draft.config.num_machines),
                               .refuse = unfit_number});
}

void ask_precision(Asker& ask) {
  const auto& deepspeed = ask.config().deepspeed_config;
  if (deepspeed && !deepspeed->config_file.empty() && !ask.draft().has("mixed_precision")) return;  // the JSON sets it
  ask.option("mixed_precision");
}

}  // namespace

void ask_accelerate(Asker& ask) {
  const MachineType machine = ask_machine_type(ask);
  if (machine != MachineType::kNo) {
    ask_machines(ask);
    ask.option("debug");
  } else {
    ask.draft().assign("num_machines", encode(int64_t{1}));
  }
  ask_device(ask, machine);
  settle_strategy(ask, ask_strategy(ask, machine));
  ask_processes(ask, machine);
  ask_precision(ask);
}

}  // namespace trainer::config
