// The last lines of a rank's output.
#pragma once

#include <deque>
#include <string>
#include <string_view>

namespace trainer::launch {

/// Keeps the last lines of a stream, each truncated, so that memory stays bounded.
class OutputTail {
 public:
  static constexpr size_t kLines = 20;
  static constexpr size_t kLineLength = 500;

  void append(std::string_view bytes) {
    for (char byte : bytes) {
      if (byte == '\n') {
        at_line_start_ = true;
        continue;
      }
      if (at_line_start_) start_line();
      if (lines_.back().size() < kLineLength) lines_.back() += byte;
    }
  }

  const std::deque<std::string>& lines() const { return lines_; }

 private:
  void start_line() {
    lines_.emplace_back();
    if (lines_.size() > kLines) lines_.pop_front();
    at_line_start_ = false;
  }

  std::deque<std::string> lines_;
  bool at_line_start_ = true;
};

}  // namespace trainer::launch
