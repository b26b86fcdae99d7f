#include "engine/config/machine/started_rank.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>

#include "engine/base/errors.h"
#include "engine/config/document/scalar.h"

namespace trainer::config {
namespace {

/// The variables of a launcher.
struct Starter {
  const char* name;
  const char* rank;
  const char* ranks;
  const char* local_rank;
  const char* local_ranks;
  std::vector<const char*> job;  // together they distinguish jobs on one machine
};

const std::vector<Starter>& starters() {
  static const std::vector<Starter> all{
      {"torchrun",
       "RANK",
       "WORLD_SIZE",
       "LOCAL_RANK",
       "LOCAL_WORLD_SIZE",
       // GROUP_RANK: the agent's number, as two agents can run on one machine.
       {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "GROUP_RANK"}},
      {"mpirun",  // Open MPI's
       "OMPI_COMM_WORLD_RANK",
       "OMPI_COMM_WORLD_SIZE",
       "OMPI_COMM_WORLD_LOCAL_RANK",
       "OMPI_COMM_WORLD_LOCAL_SIZE",
       {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}},
      {"mpirun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", {"PMI_PORT", "PMI_ID"}},  // Hydra's
      {"srun",  // a batch script, which isn't a rank, has SLURM_PROCID too, but no variable of a step
       "SLURM_PROCID",
       "SLURM_STEP_NUM_TASKS",
       "SLURM_LOCALID",
       "SLURM_STEP_TASKS_PER_NODE",
       {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_NODEID"}}};  // slurmd can run several nodes on one machine
  return all;
}

int64_t number(const char* variable) {
  const std::optional<int64_t> value = parse_int(environment_value(variable));
  if (!value || *value < 0)
    throw ConfigError("environment: {} is '{}': it must be a number", variable, environment_value(variable));
  return *value;
}

/// SLURM writes "4" for one machine, "4(x2)" for two, "4,3" where they differ.
int64_t tasks_per_node(const char* variable) {
  const std::string text = environment_value(variable);
  const std::optional<int64_t> tasks = parse_int(text.substr(0, text.find('(')));
  if (!tasks)
    throw ConfigError("environment: {} is '{}': every machine must run the same number of ranks (--ntasks-per-node)",
                      variable, text);
  return *tasks;
}

/// The number of ranks on this machine, from `starter` or, if it doesn't set it, from an enclosing launcher.
int64_t local_ranks(const Starter& starter, std::string& variable) {
  for (const Starter& other : starters()) {
    variable = other.local_ranks;
    if (environment_value(other.local_ranks).empty()) continue;
    return std::string_view(other.name) == "srun" ? tasks_per_node(other.local_ranks) : number(other.local_ranks);
  }
  throw ConfigError(
      "environment: {0}={1} and {2}={3} make this process one rank of a job, but {4} is not set\n  set it to the "
      "number of ranks of each machine, or unset {2} where {0} counts machines",
      starter.rank, environment_value(starter.rank), starter.local_rank, environment_value(starter.local_rank),
      starter.local_ranks);
}

/// The first machine of SLURM's "node[01-03],other"; "" if unknown.
std::string first_machine(const std::string& list) {
  const std::size_t bracket = list.find('[');
  if (bracket == std::string::npos || list.find(',') < bracket) return list.substr(0, list.find(','));
  const std::string numbers = list.substr(bracket + 1);
  return list.substr(0, bracket) + numbers.substr(0, numbers.find_first_of("-,]"));
}

void find_machine_0(StartedRank& started) {
  started.address = environment_value("MASTER_ADDR");
  if (started.address.empty() && started.by == "srun")
    started.address = first_machine(environment_value("SLURM_STEP_NODELIST"));
  started.port = parse_int(environment_value("MASTER_PORT")).value_or(0);
  // torchrun's own agent listens on MASTER_PORT.
  if (started.port > 0 && environment_value("TORCHELASTIC_USE_AGENT_STORE") == "True") ++started.port;
}

/// The numbers of srun's job and step.
void find_step(StartedRank& started) {
  const auto job = parse_int(environment_value("SLURM_JOB_ID")), step = parse_int(environment_value("SLURM_STEP_ID"));
  if (started.by != "srun" || !job || !step || *job < 0 || *step < 0) return;
  constexpr int64_t kFirst = 20000, kCount = 10000, kBetweenJobs = 16;  // many steps of a job before they repeat
  started.step = fmt::format("SLURM job {}, step {}", *job, *step);
  started.derived_port = kFirst + (*job % kCount * kBetweenJobs + *step % kCount) % kCount;
}

void check(const StartedRank& s, const Starter& starter, const std::string& local_variable) {
  const auto below = [](const char* variable, int64_t rank, const std::string& all, int64_t ranks) {
    if (rank >= ranks)
      throw ConfigError("environment: {} is {}, but {} is {}: ranks are numbered from 0", variable, rank, all, ranks);
  };
  below(starter.rank, s.rank, starter.ranks, s.ranks);
  below(starter.local_rank, s.local_rank, local_variable, s.local_ranks);
  if (s.ranks % s.local_ranks != 0)
    throw ConfigError("environment: {} is {}, but {} is {}: every machine must run the same number of ranks",
                      starter.ranks, s.ranks, local_variable, s.local_ranks);
  if (s.rank % s.local_ranks != s.local_rank)
    throw ConfigError(
        "environment: {} is {}, but {} is {} of {}: ranks must be numbered machine by machine (mpirun --map-by slot, "
        "srun --distribution=block)",
        starter.rank, s.rank, starter.local_rank, s.local_rank, s.local_ranks);
}

/// If no variable distinguishes jobs, the parent process does.
std::string job_of(const Starter& starter) {
  std::string job = starter.name;
  bool known = false;
  for (const char* variable : starter.job) {
    const std::string value = environment_value(variable);
    known |= !value.empty();
    job += "/" + value;
  }
  return known ? job : fmt::format("{}/{}", job, getppid());
}

std::optional<StartedRank> read(const Starter& starter) {
  for (const char* variable : {starter.rank, starter.ranks, starter.local_rank})
    if (environment_value(variable).empty()) return std::nullopt;
  StartedRank started{.by = starter.name, .rank = number(starter.rank), .ranks = number(starter.ranks)};
  if (started.ranks == 1 && started.rank == 0) return std::nullopt;
  started.local_rank = number(starter.local_rank);
  started.ranks_variable = starter.ranks;
  std::string local_variable;
  started.local_ranks = std::max<int64_t>(1, local_ranks(starter, local_variable));
  check(started, starter, local_variable);
  for (const char* variable : {starter.rank, starter.ranks, starter.local_rank, local_variable.c_str()})
    started.variables +=
        fmt::format("{}{}={}", started.variables.empty() ? "" : " ", variable, environment_value(variable));
  find_machine_0(started);
  find_step(started);
  started.job = job_of(starter);
  return started;
}

}  // namespace

std::string environment_value(const std::string& variable) {
  const char* const value = std::getenv(variable.c_str());
  return value != nullptr ? value : "";
}

std::optional<StartedRank> started_rank() {
  // The innermost launcher counts: torchrun and mpirun can run under srun.
  for (const Starter& starter : starters())
    if (auto started = read(starter)) return started;
  return std::nullopt;
}

std::vector<std::string> started_rank_variables() {
  std::vector<std::string> names{"MASTER_ADDR", "MASTER_PORT", "SLURM_STEP_NODELIST", "TORCHELASTIC_USE_AGENT_STORE"};
  for (const Starter& starter : starters()) {
    for (const char* variable : {starter.rank, starter.ranks, starter.local_rank, starter.local_ranks})
      names.emplace_back(variable);
    names.insert(names.end(), starter.job.begin(), starter.job.end());
  }
  return names;
}

}  // namespace trainer::config
