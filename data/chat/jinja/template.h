// Jinja templates as transformers uses them for chats: a subset of the language, in a sandbox (docs/chat_templates.md).
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/chat/jinja/budget.h"
#include "data/chat/jinja/failure.h"
#include "data/chat/jinja/parser.h"
#include "data/chat/rendered.h"

namespace trainer::data::jinja {

using Variables = std::vector<std::pair<std::string, Value>>;

struct Printed {
  std::string text;
  std::vector<TextRange> generated;  // bytes that came from `generation` blocks
};

/// A template that was read. Can be rendered by several threads at once.
class Template {
 public:
  /// Errors: Failure for what is no template, or not in the subset.
  explicit Template(std::string_view source);

  /// Errors: Failure; Raised when the template calls raise_exception.
  Printed render(const Variables& variables, const Limits& limits = {}) const;

  /// True when a `generation` block is somewhere in it.
  bool has_generation() const { return has_generation_; }
  /// True when an expression somewhere in it uses this name.
  bool uses(const std::string& name) const { return parsed_.names.contains(name); }

 private:
  ParsedTemplate parsed_;
  bool has_generation_;
};

}  // namespace trainer::data::jinja
