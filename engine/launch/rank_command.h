// How a rank's process is started.
#pragma once

#include <string>

#include "engine/config/plan/plan.h"
#include "engine/launch/process.h"
#include "engine/launch/rank_assignment.h"
#include "engine/launch/supervisor.h"

namespace trainer::launch {

/// What the ranks of a machine have in common.
struct RankSurroundings {
  const config::Plan& plan;
  const Attempt& attempt;
  const RankProgram& program;
  const RankAssignment& assignment;
  int board_fd;              // where ranks show what they do
  std::string own_address;   // at which other machines' ranks reach this machine's
  std::string slots_folder;  // of MPI ranks; "": there are none
};

/// The program of rank `rank` with its environment. For what the variables mean, see run().
Command rank_command(int rank, const RankSurroundings& about);

}  // namespace trainer::launch
