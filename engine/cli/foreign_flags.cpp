// Flags of `accelerate launch`, torchrun, torch.distributed.launch and DeepSpeed's launcher that have no key in the
// file.
#include <algorithm>
#include <filesystem>

#include "engine/base/gpu_library.h"
#include "engine/base/usable_cpus.h"
#include "engine/cli/launch_flags.h"
#include "engine/config/plan/reader.h"

namespace trainer::cli {
namespace {

void set_ranks_per_machine(const std::string& value, const LaunchFlag& flag, Asked& asked) {
  const std::string word = config::lower(value);
  const int64_t gpus = word == "auto" || word == "gpu" ? count_visible_gpus() : 0;
  int64_t ranks = config::parse_int(value).value_or(0);
  if (gpus > 0) ranks = gpus;
  if (word == "cpu" || (word == "auto" && gpus == 0)) ranks = usable_cpus();
  if (word == "gpu" && gpus == 0) {
    asked.refuse(flag.name, "is gpu, but this machine has no GPU: give a number, or cpu for one rank per core");
  } else if (ranks < 1) {
    asked.refuse(flag.name, fmt::format("must be a number, auto, cpu or gpu; is '{}'", config::shown(value)));
  } else {
    asked.sources.ranks_per_machine = config::Override{"num_processes", std::to_string(ranks), flag.name};
  }
}

/// "host", "host:port" or "[address]:port".
void set_meeting_point(const std::string& value, const LaunchFlag& flag, Asked& asked) {
  const auto bracket = value.find(']');
  const auto colon = value.find(':', bracket == std::string::npos ? 0 : bracket);
  std::string host = value.substr(0, colon);
  if (host.starts_with("[") && host.ends_with("]")) host = host.substr(1, host.size() - 2);
  if (!host.empty()) asked.set("main_process_ip", host, flag.name);
  if (colon != std::string::npos) asked.set("main_process_port", value.substr(colon + 1), flag.name);
}

/// Parses seconds, at least `least`, into `time`. `what` names their purpose in errors.
void set_time(const std::string& value, const LaunchFlag& flag, int64_t least, const char* what, Asked& asked,
              std::chrono::seconds& time) {
  constexpr int64_t kMost = 30 * 24 * 3600;
  const auto seconds = config::parse_int(value);
  if (!seconds || *seconds < least || *seconds > kMost)
    return asked.refuse(flag.name, fmt::format("the time for {} must be {} to {} seconds; is '{}'", what, least, kMost,
                                               config::shown(value)));
  time = std::chrono::seconds(*seconds);
}

void set_join_timeout(const std::string& value, const LaunchFlag& flag, Asked& asked) {
  set_time(value, flag, 1, "all machines to join", asked, asked.join_timeout);
}

/// "join_timeout=900,last_call_timeout=5,read_timeout=60": the other keys configure torchrun's rendezvous backend.
void set_meeting_options(const std::string& value, const LaunchFlag& flag, Asked& asked) {
  bool idle = false;
  for (std::size_t start = 0; start < value.size();) {
    const std::size_t end = std::min(value.find(',', start), value.size());
    const std::string pair = value.substr(start, end - start);
    const std::size_t equals = pair.find('=');
    const std::string key = pair.substr(0, equals);
    const std::string seconds = equals == std::string::npos ? "" : pair.substr(equals + 1);
    if (key == "join_timeout" || key == "timeout")
      set_join_timeout(seconds, flag, asked);
    else if (key == "last_call_timeout")
      set_time(seconds, flag, 0, "more machines to join", asked, asked.last_call);
    else
      idle = true;
    start = end + 1;
  }
  if (idle)
    asked.sources.without_effect.push_back({flag.name.substr(2), value, flag.name,
                                            "only its join_timeout (or timeout) and last_call_timeout have an effect"});
}

void set_deepspeed_file(const std::string& value, const LaunchFlag& flag, Asked& asked) {
  asked.set("training.deepspeed", config::absolute_path(value, std::filesystem::current_path()), flag.name);
}

/// Hides the value.
void keep_secret(const std::string&, const LaunchFlag& flag, Asked& asked) {
  asked.sources.without_effect.push_back({flag.name.substr(2), "…", flag.name, flag.help});
}

/// A Boolean flag that sets an option to a fixed value when true; false has no effect.
template <const char* path, const char* choice>
void choose(const std::string& value, const LaunchFlag& flag, Asked& asked) {
  const auto truth = config::parse_bool(value);
  if (!truth) return asked.refuse(flag.name, fmt::format("must be true or false; is '{}'", config::shown(value)));
  if (*truth) asked.set(path, choice, flag.name);
}

constexpr char kType[] = "distributed_type", kCpu[] = "use_cpu", kMachines[] = "num_machines";
constexpr char kTrue[] = "true", kOne[] = "1", kMultiGpu[] = "MULTI_GPU", kFsdp[] = "FSDP", kDeepspeed[] = "DEEPSPEED",
               kMegatron[] = "MEGATRON_LM";

using Support = LaunchFlag::Support;

LaunchFlag acts(const char* name, Group group, const char* value, const char* help, decltype(LaunchFlag::act) act,
                std::vector<std::string> others = {}) {
  return {name, group, help, value, Support::kHonored, std::move(others), act, "", {}};
}

LaunchFlag sets(const char* name, Group group, const char* value, const char* path, const char* help,
                std::vector<std::string> others = {}) {
  return {name, group, help, value, Support::kHonored, std::move(others), nullptr, path, {}};
}

LaunchFlag idle(const char* name, Group group, const char* value, const char* reason,
                std::vector<std::string> harmless = {}, std::vector<std::string> others = {}) {
  return {name, group, reason, value, Support::kNoEffect, std::move(others), nullptr, "", std::move(harmless)};
}

LaunchFlag secret(const char* name, Group group, const char* value, const char* reason) {
  return {name, group, reason, value, Support::kNoEffect, {}, keep_secret, "", {}};
}

LaunchFlag refused(const char* name, Group group, const char* value, const char* reason,
                   std::vector<std::string> others = {}) {
  return {name, group, reason, value, Support::kRefused, std::move(others), nullptr, "", {"false"}};
}

}  // namespace

std::vector<LaunchFlag> foreign_flags() {
  const Group accelerate = Group::kAccelerate, torchrun = Group::kTorchrun;
  const char* const logs = "the output of every rank is in output_dir/logs";
  const char* const tpu = "it is for TPUs";
  const char* const script = "trainer runs no script: the configuration says what to train";
  const char* const meeting = "the launcher is the rendezvous of its ranks";
  return {
      // The strategy. Two that differ are refused as two values of one option.
      acts("--cpu", Group::kCommon, "", "Train on the CPU, whatever the file says: use_cpu=true.", choose<kCpu, kTrue>),
      acts("--use_fsdp", Group::kCommon, "", "distributed_type=FSDP", choose<kType, kFsdp>),
      acts("--multi_gpu", accelerate, "", "distributed_type=MULTI_GPU", choose<kType, kMultiGpu>),
      acts("--use_deepspeed", accelerate, "", "distributed_type=DEEPSPEED", choose<kType, kDeepspeed>),
      acts("--use_megatron_lm", accelerate, "", "distributed_type=MEGATRON_LM", choose<kType, kMegatron>),
      refused("--tpu", accelerate, "", "there is no TPU support"),
      idle("--use_parallelism_config", accelerate, "", "parallelism_config applies whenever it is set", {"false"}),

      // Accelerate's.
      idle("--quiet", accelerate, "", "a failure is one short message anyway", {"false"}, {"-q"}),
      refused("--module", accelerate, "", script, {"-m"}),
      idle("--no_python", accelerate, "", "trainer never runs Python", {"false"}),
      idle("--tpu_cluster", accelerate, "", tpu, {"false"}),
      idle("--no_tpu_cluster", accelerate, "", tpu, {"true", "false"}),
      idle("--vm", accelerate, "TEXT", tpu),
      idle("--env", accelerate, "TEXT", "it is for TPUs; ranks inherit the launcher's environment"),
      secret("--aws_access_key_id", accelerate, "TEXT", "it is for SageMaker"),
      secret("--aws_secret_access_key", accelerate, "TEXT", "it is for SageMaker"),

      // torchrun's and torch.distributed.launch's.
      acts("--nproc_per_node", torchrun, "N",
           "Ranks per machine: a number, auto, cpu or gpu. num_processes counts the ranks of all machines.",
           set_ranks_per_machine, {"--npus_per_node", "--num_gpus"}),
      sets("--nnodes", torchrun, "N", "num_machines", "num_machines; 1:4 is a range", {"--num_nodes"}),
      sets("--node_rank", torchrun, "N", "machine_rank", "machine_rank"),
      sets("--master_addr", torchrun, "HOST", "main_process_ip", "main_process_ip"),
      sets("--master_port", torchrun, "N", "main_process_port", "main_process_port"),
      acts("--rdzv_endpoint", torchrun, "HOST:N", "main_process_ip and main_process_port", set_meeting_point),
      acts("--standalone", torchrun, "", "num_machines=1", choose<kMachines, kOne>),
      acts("--deepspeed", Group::kDeepspeed, "FILE", "A ds_config.json, as training.deepspeed.", set_deepspeed_file),
      idle("--rdzv_id", torchrun, "TEXT", meeting, {"none"}),
      acts("--join_timeout", torchrun, "N", "Seconds within which all machines must join (600).", set_join_timeout),
      acts("--rdzv_conf", torchrun, "K=V",
           "join_timeout=N: as --join_timeout. last_call_timeout=N: seconds to wait for more machines once a range has "
           "its minimum (5).",
           set_meeting_options),
      idle("--local_addr", torchrun, "HOST", meeting),
      idle("--role", torchrun, "TEXT", "all ranks have the same role", {"default"}),
      sets("--max_restarts", torchrun, "N", "max_restarts", "max_restarts"),
      idle("--monitor_interval", torchrun, "X", "the launcher notices the end of a rank at once"),
      idle("--start_method", torchrun, "NAME", "every rank is a separate program", {"spawn"}),
      idle("--tee", torchrun, "TEXT", logs, {"0"}, {"-t"}),
      idle("--redirects", torchrun, "TEXT", logs, {"0"}, {"-r"}),
      idle("--log_dir", torchrun, "FOLDER", logs),
      idle("--local_rank", torchrun, "N", "the launcher numbers its ranks"),
      idle("--use_env", torchrun, "", "ranks read their number from the environment", {"true", "false"}),
  };
}

}  // namespace trainer::cli
