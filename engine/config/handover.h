// A plan on its way to another program.
#pragma once

#include "engine/config/plan.h"

namespace trainer::config {

/// The environment variable with the number of a file descriptor that holds the plan's text.
inline constexpr const char* kPlanVariable = "TRAINER_PLAN_FD";

/// The plan that the program that started this one handed over. Errors: ConfigError when it handed over none.
Plan inherited_plan();

}  // namespace trainer::config
