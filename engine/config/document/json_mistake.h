// Why a text is not JSON, for people who wrote it by hand.
#pragma once

#include <string>

namespace trainer::config {

/// Where the parser stopped.
struct JsonStop {
  enum class Expected { kValue, kKey, kColon, kSeparator, kEnd };

  std::size_t offset = 0;    // of the rejected token; at the end of the text, its length
  std::size_t previous = 0;  // the end of the last key or value before it
  Expected expected = Expected::kValue;
  char open = '\0';     // the bracket around it: '{', '[', or none
  int open_line = 0;    // of that bracket
  std::string key;      // the last one read in that bracket
  std::string message;  // the parser's own
};

struct JsonMistake {
  std::size_t offset;
  std::string reason;
};

JsonMistake find_mistake(const std::string& text, const JsonStop& stop);

}  // namespace trainer::config
