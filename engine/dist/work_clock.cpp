#include "engine/dist/work_clock.h"

namespace trainer::dist {

double WorkClock::lap() {
  const auto now = std::chrono::steady_clock::now();
  const double waited = seconds_waited();
  const double worked = std::chrono::duration<double>(now - start_).count() - (waited - waited_);
  start_ = now;
  waited_ = waited;
  return worked;
}

}  // namespace trainer::dist
