// Jinja chat templates as transformers uses them: a sandboxed subset of the language (docs/chat_templates.md).
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
  std::vector<TextRange> generated;  // bytes printed inside `generation` blocks
};

/// A parsed template. Several threads can render it at once.
class Template {
 public:
  /// Errors: Failure for an invalid template, or one outside the supported subset.
  explicit Template(std::string_view source);

  /// Errors: Failure; Raised when the template calls raise_exception.
  Printed render(const Variables& variables, const Limits& limits = {}) const;

  /// True when it has a `generation` block.
  bool has_generation() const { return has_generation_; }
  /// True when one of its expressions uses this name.
  bool uses(const std::string& name) const { return parsed_.names.contains(name); }

 private:
  ParsedTemplate parsed_;
  bool has_generation_;
};

}  // namespace trainer::data::jinja
