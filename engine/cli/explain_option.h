// Everything the tables know about an option, as text.
#pragma once

#include <string>

#include "engine/config/plan/plan.h"

namespace trainer::cli {

/// True when `name` is a key, a path ("training.learning_rate"), a section, an alias, or the environment variable or
/// flag (without its dashes) of an option.
bool is_option(const std::string& name);

/// " (did you mean 'x'?)" or "".
std::string nearest_option(const std::string& name);

/// What the option does, accepts and is set by; with a plan also its value and where the value came from. One paragraph
/// for each option that `name` can mean.
std::string explain_option(const std::string& name, const config::Plan* plan);

}  // namespace trainer::cli
