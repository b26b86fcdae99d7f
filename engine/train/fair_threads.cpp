#include "engine/train/fair_threads.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace trainer::train {

FairThreads::FairThreads(int most, std::function<double()> waited)
    : most_(most), threads_(most), waited_(std::move(waited)) {}

int FairThreads::after_update(double now) {
  if (most_ == 1) return 1;
  if (!begin_) begin_window(now, most_);
  const double seconds = now - *begin_;
  if (threads_ < most_) {
    if (seconds < pause_) return threads_;
    pause_ = std::min(2 * pause_, kLongestPause);
    begin_window(now, most_);
  } else if (seconds >= kWindow) {
    const double busy_cores = (waited_() - waited_before_) / seconds;
    if (busy_cores < kNoticed) pause_ = kFirstPause;
    begin_window(now, busy_cores < kNoticed ? most_ : std::max(1, most_ - static_cast<int>(std::ceil(busy_cores))));
  }
  return threads_;
}

void FairThreads::begin_window(double now, int threads) {
  threads_ = threads;
  begin_ = now;
  waited_before_ = waited_();
}

}  // namespace trainer::train
