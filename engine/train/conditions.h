// What a run's numbers depend on besides its configuration and inputs, down to the last bit.
#pragma once

#include <string>

#include "engine/checkpoint/contents.h"
#include "engine/config/sections.h"

namespace trainer::train {

using checkpoint::Conditions;

/// As they are on this machine for a run of so many `ranks`; written into every checkpoint.
Conditions conditions_of(const config::Config& config, int64_t ranks);

/// For `deterministic`: nothing that sums in another order every time is used from here on; an operation that knows no
/// other way throws. To be called before a device is used.
void use_deterministic_algorithms();

/// For `deterministic`. `folder`: the checkpoint that was saved under `before`. Errors: ConfigError that names all that
/// differs.
void require_same_conditions(const Conditions& before, const Conditions& now, const std::string& folder);

}  // namespace trainer::train
