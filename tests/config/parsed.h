// Parses texts with one of the two readers.
#pragma once

#include <string>

#include "engine/base/errors.h"
#include "engine/config/document/problems.h"

namespace trainer::config {

using Parser = Node (*)(const std::string& text, const std::string& source, Problems& problems);

inline Node parsed_by(Parser parser, const std::string& text, const std::string& source) {
  Problems problems;
  Node node = parser(text, source, problems);
  problems.throw_if_any();
  return node;
}

/// The error message of the reader for `text`; "" if it accepts the text.
inline std::string refusal_by(Parser parser, const std::string& text, const std::string& source) {
  try {
    parsed_by(parser, text, source);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

inline std::string repeated(const std::string& part, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += part;
  return out;
}

}  // namespace trainer::config
