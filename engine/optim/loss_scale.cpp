#include "engine/optim/loss_scale.h"

#include <algorithm>
#include <cmath>

namespace trainer::optim {

LossScale::LossScale(const config::LossScalingConfig& options) : options_(options) {
  state_.scale = std::max(std::exp2(static_cast<double>(options.initial_scale_power)), options.min_loss_scale);
  state_.hysteresis_left = options.hysteresis;
}

void LossScale::update(bool overflowed) {
  if (overflowed) {
    state_.clean = 0;
    ++state_.skipped;
    if (state_.hysteresis_left > 1)
      --state_.hysteresis_left;
    else
      state_.scale = std::max(state_.scale / 2, options_.min_loss_scale);
    return;
  }
  if (options_.consecutive_hysteresis) state_.hysteresis_left = options_.hysteresis;
  if (++state_.clean < options_.loss_scale_window) return;
  state_.clean = 0;
  state_.hysteresis_left = options_.hysteresis;
  if (std::isfinite(static_cast<float>(state_.scale * 2))) state_.scale *= 2;
}

}  // namespace trainer::optim
