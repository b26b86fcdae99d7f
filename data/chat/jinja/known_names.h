// Finds unknown filters and tests in a template.
#pragma once

#include "data/chat/jinja/syntax.h"

namespace trainer::data::jinja {

/// Like jinja2: an unknown name inside an `if` fails only when it is evaluated, everywhere else at once.
/// Errors: Failure with the line.
void check_names(const Block& block, bool in_condition = false);

}  // namespace trainer::data::jinja
