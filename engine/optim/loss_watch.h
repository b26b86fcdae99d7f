#pragma once

#include <cstdint>

namespace trainer::optim {

/// What the watch remembers of the losses so far.
struct LossWatchState {
  int64_t seen = 0;
  double mean = 0, variance = 0;  // weighted: the last fifty or so count most
};

/// Tells a loss that is far above those before it. Ranks that see the same losses say the same.
class LossWatch {
 public:
  /// `deviations`: how many standard deviations above the mean are too far; 0: none.
  explicit LossWatch(double deviations) : deviations_(deviations) {}

  bool is_spike(double loss) const;
  /// Learns from a loss that was no spike.
  void add(double loss);

  const LossWatchState& state() const { return state_; }
  void set_state(const LossWatchState& state) { state_ = state; }

 private:
  double deviations_;
  LossWatchState state_;
};

}  // namespace trainer::optim
