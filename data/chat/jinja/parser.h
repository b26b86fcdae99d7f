// From tokens to a tree.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "data/chat/jinja/syntax.h"

namespace trainer::data::jinja {

struct ParsedTemplate {
  Block statements;
  std::set<std::string> names;  // that its expressions use
};

/// Reads a template. Errors: Failure with the line, also for what is Jinja but not of the subset
/// (docs/chat_templates.md).
ParsedTemplate parse(std::string_view source);

}  // namespace trainer::data::jinja
