// The rank assignment: which ranks of a run this machine starts.
#pragma once

#include "engine/config/plan/plan.h"

namespace trainer::launch {

/// Every machine runs the same number of ranks, numbered machine by machine.
struct RankAssignment {
  int machine = 0;
  int machines = 1;
  int ranks = 1;  // of each machine

  int first_rank() const { return machine * ranks; }
  int machine_of(int rank) const { return rank / ranks; }
  bool is_alone() const { return machines == 1; }
  bool is_leader() const { return machine == 0; }
};

/// Errors: InternalError when the ranks can't be divided equally, which the configuration's rules exclude.
RankAssignment rank_assignment_of(const config::Plan& plan);

}  // namespace trainer::launch
