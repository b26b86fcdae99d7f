// Loss scaling, so that fp16 doesn't lose small gradients.
#pragma once

#include <cstdint>

#include "engine/config/sections.h"

namespace trainer::optim {

/// What a loss scale remembers from update to update.
struct LossScaleState {
  double scale = 0;             // 0: losses are not scaled
  int64_t clean = 0;            // updates without an overflow since the scale changed
  int64_t hysteresis_left = 0;  // overflows that it takes until the next halving
  int64_t skipped = 0;          // updates of the run that overflowed, and so changed nothing
};

/// Decides the scale as torch.amp.GradScaler does (with DeepSpeed's hysteresis, which is 1 there): halved by an
/// overflow, doubled after a number of updates without one. Ranks that agree on overflows agree on the scale.
class LossScale {
 public:
  explicit LossScale(const config::LossScalingConfig& options);

  double scale() const { return state_.scale; }
  /// False when an overflow now can't be helped by a smaller scale.
  bool can_shrink() const { return state_.scale > options_.min_loss_scale || state_.hysteresis_left > 1; }
  /// After each update, with whether its gradients overflowed.
  void update(bool overflowed);

  const LossScaleState& state() const { return state_; }
  void set_state(const LossScaleState& state) { state_ = state; }

 private:
  config::LossScalingConfig options_;
  LossScaleState state_;
};

}  // namespace trainer::optim
