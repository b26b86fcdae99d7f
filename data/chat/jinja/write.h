// Converts values to text.
#pragma once

#include <string>

#include "data/chat/jinja/budget.h"
#include "data/chat/jinja/value.h"

namespace trainer::data::jinja {

/// As `{{ value }}` prints it: Python's str. Errors: BadOperation for values without a meaningful text.
std::string text_of(const Value& value, Budget& budget);

struct JsonStyle {
  bool ascii = false;
  bool sorted = false;
  std::string indent;        // of one level
  bool spread = false;       // one item a line
  std::string comma, colon;  // between items, after a key
};

/// As Python's json.dumps writes it. Errors: BadOperation for values that JSON can't represent.
std::string json_of(const Value& value, const JsonStyle& style, Budget& budget);

}  // namespace trainer::data::jinja
