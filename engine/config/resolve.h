// From files, environment and flags to the Plan.
#pragma once

#include <string>
#include <vector>

#include "engine/config/plan.h"

namespace trainer::config {

/// One value from the command line. `path` is an option ("training.learning_rate"), `source` what the user typed
/// ("--set", "--num_processes"). A value in brackets or quotes is read as YAML,
/// unless the option holds one text.
struct Override {
  std::string path;
  std::string value;
  std::string source;
};

/// What a plan is made of. Later ones win: defaults, `file`, `job_file`, environment, `overrides`.
struct Sources {
  std::string file;      // "" : none
  std::string job_file;  // "" : none
  std::vector<Override> overrides;
};

/// Errors: ConfigError with everything that is wrong, one line each; ConfigError too when a file can't be read.
Plan resolve_plan(const Sources& sources);

/// The environment variables that are read, and the options they set.
struct Variable {
  const char* name;
  const char* path;
};
inline constexpr Variable kVariables[] = {{"ACCELERATE_MIXED_PRECISION", "mixed_precision"},
                                          {"ACCELERATE_USE_CPU", "use_cpu"}};

}  // namespace trainer::config
