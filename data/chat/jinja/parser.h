// From tokens to a tree.
#pragma once

#include <string_view>

#include "data/chat/jinja/syntax.h"

namespace trainer::data::jinja {

/// Reads a template. Errors: Failure with the line, also for what is Jinja but not of the subset
/// (docs/chat_templates.md).
Block parse(std::string_view source);

}  // namespace trainer::data::jinja
