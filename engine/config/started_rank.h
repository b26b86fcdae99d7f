// A process that mpirun, srun or torchrun started as one rank of a job.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainer::config {

/// What its environment says of it. Ranks are numbered machine by machine, equally many on each.
struct StartedRank {
  std::string by{};         // "mpirun", "srun", "torchrun": of the family of these
  std::string variables{};  // what was read: "RANK=3 WORLD_SIZE=4 …"
  int64_t rank = 0, ranks = 0;
  int64_t local_rank = 0, local_ranks = 0;  // on this machine
  std::string ranks_variable{};             // that says how many there are
  std::string address{};                    // of machine 0; "" when it isn't known
  int64_t port = 0;                         // there; 0 when it isn't known
  std::string job{};                        // jobs that run on one machine at a time have different ones

  int64_t machine() const { return rank / local_ranks; }
  int64_t machines() const { return ranks / local_ranks; }
};

/// Nothing for a process that was started by hand, as the only one, or as one that stands for a whole machine (RANK
/// without LOCAL_RANK). Errors: ConfigError for numbers that contradict each other, with both.
std::optional<StartedRank> started_rank();

/// The names of the variables that it reads.
std::vector<std::string> started_rank_variables();

}  // namespace trainer::config
