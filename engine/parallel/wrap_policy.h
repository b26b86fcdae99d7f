#pragma once

#include <string>
#include <vector>

#include "engine/config/sections.h"
#include "models/model.h"

namespace trainer::parallel {

/// The modules that become FSDP units, in the order of the tree. Errors: ConfigError that lists the model's classes
/// when a named class is not among them.
std::vector<nn::Module*> units_to_wrap(models::Model& model, const config::FsdpConfig& options);

}  // namespace trainer::parallel
