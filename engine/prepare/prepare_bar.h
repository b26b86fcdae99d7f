#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <string>

namespace trainer::prepare {

/// Shows the progress of tokenization: on a terminal one line, redrawn ten times a second; elsewhere a line every ten
/// seconds. Shows nothing for shorter work.
class PrepareBar {
 public:
  explicit PrepareBar(int fd = STDERR_FILENO);
  /// Clears the line.
  ~PrepareBar();
  PrepareBar(const PrepareBar&) = delete;
  PrepareBar& operator=(const PrepareBar&) = delete;

  /// `part` of the files has been read into `samples` samples.
  void show(double part, int64_t samples);

 private:
  using Clock = std::chrono::steady_clock;

  int fd_;
  bool on_terminal_, drawn_ = false;
  Clock::time_point start_, last_;
};

/// "tokenizing  43 %  120k samples  8.1k per second  12s left".
std::string prepare_line(double part, int64_t samples, double seconds);

}  // namespace trainer::prepare
