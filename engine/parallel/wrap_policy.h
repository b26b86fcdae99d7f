#pragma once

#include <vector>

#include "engine/config/sections.h"
#include "models/model.h"

namespace trainer::parallel {

/// A module, and the parameters that are gathered and freed with it.
struct UnitPlan {
  nn::Module* module = nullptr;
  std::vector<nn::ParameterPtr> parameters;
};

/// The FSDP units of a model: those within another one before it, the model itself with what is left as the last. A
/// weight that is used outside a module too (a tied embedding) belongs to the unit around all its uses. Errors:
/// ConfigError that lists the model's classes when a named class is not among them.
std::vector<UnitPlan> plan_units(models::Model& model, const config::FsdpConfig& options);

}  // namespace trainer::parallel
