#pragma once

#include <chrono>

namespace trainer::dist {

/// Seconds that this process has waited for other ranks in collectives that are watched. Where those run on a GPU's own
/// streams they hold up nobody here, and are no part of it.
double seconds_waited();

/// Measures what a rank does between collectives.
class WorkClock {
 public:
  /// Seconds since the last call, or the beginning, but for those waited.
  double lap();

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double waited_ = seconds_waited();
};

}  // namespace trainer::dist
