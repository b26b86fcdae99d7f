#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <string>

namespace trainer::prepare {

/// Shows how far tokenising is: on a terminal one line that is redrawn ten times a second, elsewhere a line every ten
/// seconds. Nothing is shown for what takes less than a moment.
class PrepareBar {
 public:
  explicit PrepareBar(int fd = STDERR_FILENO);
  /// Clears the line.
  ~PrepareBar();
  PrepareBar(const PrepareBar&) = delete;
  PrepareBar& operator=(const PrepareBar&) = delete;

  /// `part` of the files was read, `samples` were made of it.
  void show(double part, int64_t samples);

 private:
  using Clock = std::chrono::steady_clock;

  int fd_;
  bool on_terminal_, drawn_ = false;
  Clock::time_point start_, last_;
};

/// "tokenising  43 %  120,000 samples  8,100 a second  0:12 left".
std::string prepare_line(double part, int64_t samples, double seconds);

}  // namespace trainer::prepare
