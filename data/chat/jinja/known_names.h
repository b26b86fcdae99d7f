// Filters and tests that a template names, but that the language hasn't.
#pragma once

#include "data/chat/jinja/syntax.h"

namespace trainer::data::jinja {

/// As jinja2 does it: within an `if` an unknown name fails only when it is reached, everywhere else at once.
/// Errors: Failure with the line.
void check_names(const Block& block, bool in_condition = false);

}  // namespace trainer::data::jinja
