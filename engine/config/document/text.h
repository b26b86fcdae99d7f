// The text of a configuration file: its encoding, and lines and columns in it.
#pragma once

#include <string>

#include "engine/config/document/document.h"

namespace trainer::config {

/// `bytes` as UTF-8 text without leading byte-order marks.
/// Errors: ConfigError for more than kMaxBytes, UTF-16, UTF-32, zero bytes, and invalid UTF-8.
std::string utf8_text(const std::string& bytes, const std::string& source);

/// Turns offsets into marks. A column counts bytes, as in the marks of the YAML reader.
class Places {
 public:
  /// `text` must live as long as this.
  Places(const std::string& text, const std::string& source);

  /// Call with increasing offsets; a smaller offset rescans from the start.
  Mark at(std::size_t offset);

 private:
  const std::string& text_;
  std::shared_ptr<const std::string> source_;
  std::size_t counted_ = 0;     // lines are counted up to here
  std::size_t line_start_ = 0;  // of the line that contains `counted_`
  int line_ = 1;
};

}  // namespace trainer::config
