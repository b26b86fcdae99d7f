// Conditions that a run's numbers depend on, bit for bit, besides its configuration and inputs.
#pragma once

#include <string>

#include "engine/checkpoint/contents.h"
#include "engine/config/sections.h"

namespace trainer::train {

using checkpoint::Conditions;

/// The conditions on this machine for a run of `ranks` ranks; written into every checkpoint.
Conditions conditions_of(const config::Config& config, int64_t ranks);

/// For `deterministic`: from here on, operations use deterministic algorithms and throw if they have none. Call before
/// using a device.
void use_deterministic_algorithms();

/// For `deterministic`. `folder`: the checkpoint that was saved under `before`. Errors: ConfigError that lists all
/// differences.
void require_same_conditions(const Conditions& before, const Conditions& now, const std::string& folder);

}  // namespace trainer::train
