#include "engine/cli/started_once.h"

#include <fmt/format.h>

#include "engine/config/machine/started_rank.h"

namespace trainer::cli {

std::string started_several_times(const std::string& command) {
  const auto started = config::started_rank();
  if (!started || started->local_ranks < 2) return "";
  return fmt::format(
      "{} started {} processes on this machine ({}), and `trainer {}` starts the ranks itself\n  start it once on each "
      "machine",
      started->by, started->local_ranks, started->variables, command);
}

}  // namespace trainer::cli
