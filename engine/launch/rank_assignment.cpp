#include "engine/launch/rank_assignment.h"

#include "engine/base/errors.h"

namespace trainer::launch {

RankAssignment rank_assignment_of(const config::Plan& plan) {
  const config::Config& config = plan.config;
  require(plan.world_size() >= 1 && config.num_machines >= 1, "a plan for {} processes on {} machines",
          plan.world_size(), config.num_machines);
  require(plan.world_size() % config.num_machines == 0 && config.machine_rank < config.num_machines,
          "a plan for {} processes on machine {} of {}", plan.world_size(), config.machine_rank, config.num_machines);
  return {.machine = static_cast<int>(config.machine_rank),
          .machines = static_cast<int>(config.num_machines),
          .ranks = static_cast<int>(plan.world_size() / config.num_machines)};
}

}  // namespace trainer::launch
