#pragma once

#include "engine/cli/command.h"
#include "engine/cli/flags.h"

namespace trainer::cli {

/// Prints the script or manifest that starts the run of `flags`, given by `arguments`, on a cluster of this kind.
/// Errors: ConfigError for a kind that isn't in config::cluster_kinds(); those of PlanFlags.
int emit(const std::string& kind, const PlanFlags& flags, const Arguments& arguments);

}  // namespace trainer::cli
