// Parses a template into a tree.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "data/chat/jinja/syntax.h"

namespace trainer::data::jinja {

struct ParsedTemplate {
  Block statements;
  std::set<std::string> names;  // used by its expressions
};

/// Parses a template. Errors: Failure with the line, also for Jinja outside the supported subset
/// (docs/chat_templates.md).
ParsedTemplate parse(std::string_view source);

}  // namespace trainer::data::jinja
