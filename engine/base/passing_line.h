#pragma once

#include <unistd.h>

#include <chrono>
#include <string>

namespace trainer {

/// A line about work that takes a while: on a terminal, redrawn ten times a second and cleared at the end; elsewhere a
/// line every ten seconds. Nothing for shorter work.
class PassingLine {
 public:
  explicit PassingLine(int fd = STDERR_FILENO);
  /// Clears the line.
  ~PassingLine();
  PassingLine(const PassingLine&) = delete;
  PassingLine& operator=(const PassingLine&) = delete;

  /// Whether show() would show something now.
  bool is_due() const;
  /// Does nothing if it isn't due.
  void show(const std::string& line);
  /// Since the construction.
  double seconds() const;

 private:
  using Clock = std::chrono::steady_clock;

  const int fd_;
  const bool on_terminal_;
  bool drawn_ = false;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point last_ = start_;
};

}  // namespace trainer
