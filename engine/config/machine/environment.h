// Options from environment variables: Accelerate's, which the tables declare, and those with which schedulers number
// machines.
#pragma once

#include <string>
#include <vector>

#include "engine/config/plan/plan.h"
#include "engine/config/plan/reader.h"

namespace trainer::config {

/// Applies the environment variables to `draft`. Empty variables count as unset.
/// MASTER_ADDR, MASTER_PORT, WORLD_SIZE and RANK count machines, as set by Kubeflow's PyTorchJob, if LOCAL_RANK is not
/// set and the number of ranks is known from the file or, if `ranks_given`, from a flag. The variables of mpirun and
/// srun also count machines if they started one process on each machine. Otherwise the variables of a StartedRank count
/// ranks.
/// Errors: those of started_rank().
void apply_environment(Draft& draft, bool ranks_given = false);

/// One line with the environment variables that number machines or ranks and how they were interpreted; "" if none.
std::string machine_reading(const Plan& plan);

/// Errors: ConfigError if flags override the numbers of a StartedRank with different ones.
void check_started_rank(const Plan& plan);

/// The variables that the communication libraries in the ranks read: NCCL_*, HCCL_*, GLOO_*…, as "NAME=value".
std::vector<std::string> vendor_variables();

/// The names of all variables that options are read from.
std::vector<std::string> known_variables();

}  // namespace trainer::config
