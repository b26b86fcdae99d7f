#pragma once

#include <chrono>

namespace trainer::dist {

/// Seconds that this process has waited for other ranks in watched collectives. Collectives on a GPU's own streams
/// don't block this process and aren't included.
double seconds_waited();

/// Measures the time that a rank works between collectives.
class WorkClock {
 public:
  /// Seconds since the last call, or the construction, without those spent waiting.
  double lap();

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double waited_ = seconds_waited();
};

}  // namespace trainer::dist
