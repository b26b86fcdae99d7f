#include "data/tokenizers/text/read_pattern.h"

namespace trainer::data {

Pattern read_pattern(const JsonView& view) {
  JsonView literal = view.at("String");
  if (!literal.is_null()) return Pattern::literal(literal.text());
  JsonView regex = view.at("Regex");
  try {
    return Pattern::regex(regex.text());
  } catch (const Malformed& error) {
    regex.problem(error.why);
    return Pattern::literal(" ");
  }
}

}  // namespace trainer::data
