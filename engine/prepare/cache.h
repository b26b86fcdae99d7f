#pragma once

#include <string>
#include <vector>

#include "engine/config/sections/data.h"

namespace trainer::prepare {

/// `trainer cache`: lists the token caches, or removes some. Returns the exit code. Errors: InputError, MachineError.
int cache_command(const std::vector<std::string>& args);

/// Removes the token caches beyond data.cache_max_gb and data.cache_max_days, and logs how many. Those that were opened
/// within the last hour stay, and runs keep what they have open. A cache that can't be removed is logged.
void prune_caches(const config::DataConfig& config);

}  // namespace trainer::prepare
