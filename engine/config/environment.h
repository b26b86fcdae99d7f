// Options from environment variables: Accelerate's names, which the tables declare, and those by which schedulers tell
// machines apart.
#pragma once

#include <string>
#include <vector>

#include "engine/config/plan.h"
#include "engine/config/reader.h"

namespace trainer::config {

/// Puts what the environment says over `draft`. Variables that are empty count as unset.
///
/// MASTER_ADDR, MASTER_PORT, WORLD_SIZE and RANK count machines, as Kubeflow's PyTorchJob sets them, when LOCAL_RANK is
/// not set and the number of ranks is known: from the file, or because `ranks_given` by a flag. So do the variables of
/// mpirun and srun that started one process on each machine. Else those of a StartedRank count ranks.
/// Errors: those of started_rank().
void apply_environment(Draft& draft, bool ranks_given = false);

/// "" or the variables of the environment that number machines or ranks, and what they were read as, in a line.
std::string machine_reading(const Plan& plan);

/// Errors: ConfigError when flags have put other numbers over those of a StartedRank.
void check_started_rank(const Plan& plan);

/// The variables that ranks and the libraries in them read for themselves: NCCL_*, HCCL_*, GLOO_*…, "NAME=value".
std::vector<std::string> vendor_variables();

/// The names of all variables that are read.
std::vector<std::string> known_variables();

}  // namespace trainer::config
