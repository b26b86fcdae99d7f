// A process that mpirun, srun or torchrun started as a rank of a job.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainer::config {

// Note [Ports of jobs]
// SLURM may run several jobs on one node, and several steps of a job. If all of them met on the default port, a launcher
// would meet the machine 0 of another job. So the port follows from the numbers of job and step: 20000 to 29999, below
// the ports that the kernel gives to connections. Two jobs can still get the same one; machines that introduce
// themselves therefore name their job.

/// What its environment variables say. Ranks are numbered machine by machine, with the same number on each.
struct StartedRank {
  std::string by{};         // "mpirun", "srun" or "torchrun": the kind of launcher
  std::string variables{};  // what was read: "RANK=3 WORLD_SIZE=4 …"
  int64_t rank = 0, ranks = 0;
  int64_t local_rank = 0, local_ranks = 0;  // on this machine
  std::string ranks_variable{};             // the variable with the number of ranks
  std::string address{};                    // of machine 0; "" if unknown
  int64_t port = 0;                         // on machine 0; 0 if unknown
  int64_t derived_port = 0;                 // from the job's number, for when no port is given: see Note [Ports of jobs]
  std::string job{};                        // distinguishes jobs whose processes run on a machine at the same time
  std::string step{};                       // srun's job and step, the same on all machines: "SLURM job 7, step 0"

  int64_t machine() const { return rank / local_ranks; }
  int64_t machines() const { return ranks / local_ranks; }
  /// What started it starts a process only once: a machine whose launcher has ended doesn't return.
  bool starts_once() const { return by == "srun" || by == "mpirun"; }
};

/// nullopt for a process that was started by hand, as the only rank, or to represent a whole machine (RANK without
/// LOCAL_RANK). Errors: ConfigError for contradictory numbers, with both of them.
std::optional<StartedRank> started_rank();

/// The value of an environment variable; "" if it is not set.
std::string environment_value(const std::string& variable);

/// The names of the variables that started_rank() reads.
std::vector<std::string> started_rank_variables();

}  // namespace trainer::config
