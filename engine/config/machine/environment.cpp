#include "engine/config/machine/environment.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <tuple>

#include "engine/base/errors.h"
#include "engine/base/listed.h"
#include "engine/config/machine/started_rank.h"
#include "engine/config/plan/override.h"
#include "engine/config/tables.h"

namespace trainer::config {
namespace {

/// Boolean variables of Accelerate's launcher that select a value of distributed_type.
struct Choice {
  const char* variable;
  const char* type;
};
constexpr Choice kChoices[] = {{"ACCELERATE_USE_FSDP", "FSDP"},
                               {"ACCELERATE_USE_DEEPSPEED", "DEEPSPEED"},
                               {"ACCELERATE_USE_MEGATRON_LM", "MEGATRON_LM"}};

/// Accelerate's launcher exports "none" and "auto" for numbers that are not given.
bool leaves_open(const std::string& value, const Entry& entry) {
  const bool number = entry.kind.type == Type::kInteger || entry.kind.type == Type::kNumber;
  return number && entry.kind.known.empty() && (lower(value) == "none" || lower(value) == "auto");
}

void set(const std::string& path, const std::string& value, const std::string& variable, Draft& draft) {
  if (!value.empty()) apply_override({path, value, kEnvironmentSource + variable}, draft);
}

/// Variables with which schedulers number machines.
struct MachineVariable {
  const char* variable;
  const char* option;
};
constexpr MachineVariable kMachineVariables[] = {{"WORLD_SIZE", "num_machines"},
                                                 {"RANK", "machine_rank"},
                                                 {"MASTER_ADDR", "main_process_ip"},
                                                 {"MASTER_PORT", "main_process_port"}};

/// If torchrun's own variable has a range of machines, WORLD_SIZE is only the number that is currently requested.
std::string variable_of_machines() {
  const std::string range = "PET_NNODES";
  return environment_value(range).find(':') != std::string::npos ? range : "WORLD_SIZE";
}

void apply_machines(Draft& draft, bool ranks_given) {
  const std::string counts = variable_of_machines(), machines = environment_value(counts),
                    rank = environment_value("RANK");
  if (machines.empty() || rank.empty() || !environment_value("LOCAL_RANK").empty()) return;
  if (parse_int(machines) == 1) return;
  if (!ranks_given && !draft.is_set("num_processes")) {
    draft.warnings.push_back(fmt::format(
        "environment: {} {} and RANK {} are not used, because the number of ranks per machine is unknown: set "
        "--nproc_per_node, or num_processes in the file",
        counts, machines, rank));
    return;
  }
  for (const auto& [named, option] : kMachineVariables) {
    const std::string variable = std::string(named) == "WORLD_SIZE" ? counts : named,
                      value = environment_value(variable);
    set(option, value, variable, draft);
    if (!value.empty())
      draft.translated.push_back(translated_note(variable, value, std::string(kEnvironmentSource) + variable, option,
                                                 value, "LOCAL_RANK is not set"));
  }
}

/// An option of the run that the environment of a rank sets.
struct Said {
  const char* option;
  std::string value;
  std::string variable;
};

/// Whether the process can represent its machine: it is the only one on it.
bool may_stand_for_machine(const StartedRank& started) {
  return started.local_ranks == 1 && started.by != "torchrun";
}

/// `ranks_given`: the number of ranks is set by a flag.
void apply_started(const StartedRank& started, bool ranks_given, Draft& draft) {
  const bool more = draft.is_set("num_processes") && draft.config.num_processes > started.ranks;
  const bool machine = may_stand_for_machine(started) && (ranks_given || more);
  const int64_t machines = machine ? started.ranks : started.machines();
  std::vector<Said> said;
  const auto say = [&](const char* option, const std::string& value, const std::string& variable = "") {
    said.push_back({option, value, variable.empty() ? started.ranks_variable : variable});
  };
  if (machines != draft.config.num_machines) say("num_machines", std::to_string(machines));
  if (!machine) say("num_processes", std::to_string(started.ranks));
  if (started.machines() > 1) {
    say("machine_rank", std::to_string(started.machine()));
    if (!started.address.empty()) say("main_process_ip", started.address);
    if (started.port > 0) {
      say("main_process_port", std::to_string(started.port));
    } else if (started.derived_port > 0 && !draft.is_set("main_process_port")) {
      say("main_process_port", std::to_string(started.derived_port), "SLURM_JOB_ID");
    }
  }
  for (const auto& [option, value, variable] : said) {
    set(option, value, variable, draft);
    draft.translated.push_back(translated_note(variable, environment_value(variable),
                                               std::string(kEnvironmentSource) + variable, option, value,
                                               started.by + " started this process"));
  }
}

std::string started_reading(const StartedRank& started, const Plan& plan) {
  const std::string begin = fmt::format("environment: {} by {}: read as", started.variables, started.by);
  if (may_stand_for_machine(started) && plan.world_size() > started.ranks)
    return fmt::format("{} machine {} of {}, with {} ranks each", begin, started.machine(), started.ranks,
                       plan.world_size() / started.ranks);
  if (started.local_ranks == 1) return fmt::format("{} rank {} of {}", begin, started.rank, started.ranks);
  const int64_t first = started.machine() * started.local_ranks;
  return fmt::format("{} rank {} of {}; this process runs ranks {} to {}, and the other {} on this machine wait for it",
                     begin, started.rank, started.ranks, first, first + started.local_ranks - 1,
                     started.local_ranks - 1);
}

}  // namespace

void check_started_rank(const Plan& plan) {
  const std::optional<StartedRank> started = started_rank();
  if (!started || (may_stand_for_machine(*started) && plan.world_size() > started->ranks)) return;
  const config::Config& c = plan.config;
  const std::tuple<const char*, int64_t, int64_t> numbers[] = {{"num_processes", c.num_processes, started->ranks},
                                                               {"num_machines", c.num_machines, started->machines()},
                                                               {"machine_rank", c.machine_rank, started->machine()}};
  for (const auto& [option, value, seen] : numbers)
    if (value != seen)
      throw ConfigError(
          "{} is {} ({}), but {} started this process with {}, which makes it {}\n  let {} set the number, or start "
          "the trainer without it",
          option, value, plan.origins.at(option), started->by, started->variables, seen, started->by);
}

std::string machine_reading(const Plan& plan) {
  if (const auto started = started_rank()) return started_reading(*started, plan);
  const auto origin = plan.origins.find("num_machines");
  const std::string counts = variable_of_machines();
  if (origin == plan.origins.end() || origin->second != kEnvironmentSource + counts) return "";
  std::string variables;
  for (const auto& [named, option] : kMachineVariables) {
    const std::string variable = std::string(named) == "WORLD_SIZE" ? counts : named;
    if (const std::string value = environment_value(variable); !value.empty())
      variables += fmt::format("{}{}={}", variables.empty() ? "" : " ", variable, value);
  }
  const int64_t ranks = plan.config.num_processes / plan.config.num_machines;
  return fmt::format("environment: {} without LOCAL_RANK: read as machine {} of {}, with {} each", variables,
                     plan.config.machine_rank, plan.config.num_machines, counted(ranks, "rank", "ranks"));
}

std::vector<std::string> vendor_variables() {
  std::vector<std::string> found;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    for (const std::string_view prefix : {"NCCL_", "HCCL_", "GLOO_", "UCX_", "FI_", "TORCH_NCCL_"})
      if (text.starts_with(prefix)) found.emplace_back(text);
  }
  std::sort(found.begin(), found.end());
  return found;
}

void apply_environment(Draft& draft, bool ranks_given) {
  for (const Choice& choice : kChoices) {
    const std::string value = environment_value(choice.variable);
    if (parse_bool(value) == true) set("distributed_type", choice.type, choice.variable, draft);
  }
  each_entry(root_table(), [&](const std::string& path, const Entry& entry) {
    if (entry.variable.empty()) return;
    const std::string value = environment_value(entry.variable);
    if (!leaves_open(value, entry)) set(path, value, entry.variable, draft);
  });
  if (const auto started = started_rank()) {
    apply_started(*started, ranks_given, draft);
  } else {
    apply_machines(draft, ranks_given);
  }
}

std::vector<std::string> known_variables() {
  std::vector<std::string> names;
  for (const Choice& choice : kChoices) names.emplace_back(choice.variable);
  for (const MachineVariable& machine : kMachineVariables) names.emplace_back(machine.variable);
  names.emplace_back("PET_NNODES");
  for (std::string& name : started_rank_variables())
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
  each_entry(root_table(), [&](const std::string&, const Entry& entry) {
    if (!entry.variable.empty()) names.push_back(entry.variable);
  });
  return names;
}

}  // namespace trainer::config
