#pragma once

#include <chrono>

namespace trainer::dist {

/// Seconds that this process, or the stream on which its device computes (Note [Waits on streams]), has waited for
/// other ranks in watched collectives. Those of a device count when it has passed them.
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
