#pragma once

#include <vector>

#include "engine/config/sections/distributed.h"
#include "models/model.h"

namespace trainer::parallel {

/// A module, and the parameters that are gathered and freed with it.
struct UnitPlan {
  nn::Module* module = nullptr;
  std::vector<nn::ParameterPtr> parameters;
};

/// The FSDP units of a model: inner units before outer ones; last, the model itself with everything else. A weight used
/// outside a module too (a tied embedding) belongs to the unit that encloses all its uses. Errors: ConfigError with the
/// list of the model's classes if a given class is not among them.
std::vector<UnitPlan> plan_units(models::Model& model, const config::FsdpConfig& options);

}  // namespace trainer::parallel
