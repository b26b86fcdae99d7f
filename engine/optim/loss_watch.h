#pragma once

#include <cstdint>

namespace trainer::optim {

/// Running statistics of the losses so far.
struct LossWatchState {
  int64_t seen = 0;
  double mean = 0, variance = 0;  // weighted toward the last fifty or so
};

/// Detects a loss far above the previous ones. Ranks that see the same losses decide the same.
class LossWatch {
 public:
  /// `deviations`: how many standard deviations above the mean make a spike; 0: off.
  explicit LossWatch(double deviations) : deviations_(deviations) {}

  bool is_spike(double loss) const;
  /// Adds a loss that was not a spike to the statistics.
  void add(double loss);

  const LossWatchState& state() const { return state_; }
  void set_state(const LossWatchState& state) { state_ = state; }

 private:
  double deviations_;
  LossWatchState state_;
};

}  // namespace trainer::optim
