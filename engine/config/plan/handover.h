// Hands a plan over to another program.
#pragma once

#include "engine/config/plan/plan.h"

namespace trainer::config {

/// The environment variable with the number of the file descriptor from which the plan's text is read.
inline constexpr const char* kPlanVariable = "TRAINER_PLAN_FD";

/// The plan that the parent program handed over. Errors: ConfigError if there is none.
Plan inherited_plan();

}  // namespace trainer::config
