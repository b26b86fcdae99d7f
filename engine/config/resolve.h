// From files, environment and flags to the Plan.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/config/override.h"
#include "engine/config/plan.h"

namespace trainer::config {

/// What a plan is made of. Later ones win: defaults, `file`, `job_file`, environment, `overrides`.
struct Sources {
  std::string file;      // "" : none
  std::string job_file;  // "" : none
  std::vector<Override> overrides;
  std::optional<Override> ranks_per_machine{};  // num_processes is this many times num_machines
  std::vector<Problem> problems{};              // flags that say nothing acceptable
  std::vector<Note> without_effect{};           // flags that are accepted and change nothing
  bool to_run = true;                           // here and now; else GPUs and samples may be missing
};

/// Errors: ConfigProblems with everything that is wrong, one line each; ConfigError too when a file can't be read;
/// InputError for a bad adapter folder (read_adapter_config), when it is all that is wrong.
Plan resolve_plan(const Sources& sources);

}  // namespace trainer::config
