// Splits a template into tokens.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trainer::data::jinja {

struct Token {
  enum class Kind {
    kText,
    kPrintBegin,
    kPrintEnd,
    kBlockBegin,
    kBlockEnd,
    kName,
    kString,
    kInteger,
    kFloat,
    kOperator,
    kEnd
  };
  Kind kind = Kind::kEnd;
  std::string text;  // of a string: its value
  int line = 1;

  bool is(Kind other, std::string_view value) const { return kind == other && text == value; }
};

/// Splits `source` as Jinja does with trim_blocks and lstrip_blocks: the line end after a block or comment is removed,
/// and so are the blanks before one at the start of its line. Comments are left out; the last token is kEnd.
/// Errors: Failure.
std::vector<Token> tokens_of(std::string_view source);

}  // namespace trainer::data::jinja
