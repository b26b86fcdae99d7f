// From files, environment and flags to the Plan.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/config/plan/override.h"
#include "engine/config/plan/plan.h"

namespace trainer::config {

/// The sources of a plan. Later ones win: defaults, `file`, `job_file`, environment, `overrides`.
struct Sources {
  std::string file;      // "" : none
  std::string job_file;  // "" : none
  std::vector<Override> overrides;
  std::optional<Override> ranks_per_machine{};  // num_processes is this number times num_machines
  std::vector<Problem> problems{};              // problems of flags
  std::vector<Note> without_effect{};           // flags that are accepted and have no effect
  bool to_run = true;                           // on this machine, now; otherwise GPUs and samples can be missing
};

/// Errors: ConfigProblems with all problems, one line each; ConfigError if a file can't be read; InputError for a bad
/// adapter folder (read_adapter_config) if there is no other problem.
Plan resolve_plan(const Sources& sources);

}  // namespace trainer::config
