// Loss scaling, which keeps small gradients representable in fp16.
#pragma once

#include <cstdint>

#include "engine/config/sections/training.h"

namespace trainer::optim {

/// The state of a loss scale between updates.
struct LossScaleState {
  double scale = 0;             // 0: loss scaling is off
  int64_t clean = 0;            // updates without overflow since the scale last changed
  int64_t hysteresis_left = 0;  // overflows until the next halving
  int64_t skipped = 0;          // updates of the run that were skipped because of an overflow
};

/// Sets the scale as torch.amp.GradScaler does (plus DeepSpeed's hysteresis; 1 gives GradScaler's behavior): an
/// overflow halves it, a number of updates without one doubles it. One that `loss_scale` fixes stays, and its
/// hysteresis is the number of overflows in a row that end the run. Ranks that agree on overflows agree on the scale.
class LossScale {
 public:
  explicit LossScale(const config::LossScalingConfig& options);

  double scale() const { return state_.scale; }
  bool is_fixed() const { return options_.loss_scale > 0; }
  /// False if another overflow means that the scale doesn't help.
  bool may_overflow() const {
    return (!is_fixed() && state_.scale > options_.min_loss_scale) || state_.hysteresis_left > 1;
  }
  /// Call after each update; `overflowed`: whether its gradients overflowed.
  void update(bool overflowed);

  const LossScaleState& state() const { return state_; }
  /// Goes on from a checkpoint's, within what the options say now.
  void set_state(const LossScaleState& state);

 private:
  config::LossScalingConfig options_;
  LossScaleState state_;
};

}  // namespace trainer::optim
