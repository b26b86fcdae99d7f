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
/// overflow halves it, a number of updates without one doubles it. Ranks that agree on overflows agree on the scale.
class LossScale {
 public:
  explicit LossScale(const config::LossScalingConfig& options);

  double scale() const { return state_.scale; }
  /// False if a smaller scale can no longer prevent an overflow.
  bool can_shrink() const { return state_.scale > options_.min_loss_scale || state_.hysteresis_left > 1; }
  /// Call after each update; `overflowed`: whether its gradients overflowed.
  void update(bool overflowed);

  const LossScaleState& state() const { return state_; }
  void set_state(const LossScaleState& state) { state_ = state; }

 private:
  config::LossScalingConfig options_;
  LossScaleState state_;
};

}  // namespace trainer::optim
