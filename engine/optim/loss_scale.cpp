#include "engine/optim/loss_scale.h"

#include <algorithm>
#include <cmath>

namespace trainer::optim {
namespace {

constexpr int64_t kMostOverflowsInARow = 20;  // of a fixed scale
constexpr double kLeastScale = 0x1p-24;

config::LossScalingConfig completed(config::LossScalingConfig options) {
  if (options.min_loss_scale == 0) options.min_loss_scale = kLeastScale;
  if (options.loss_scale == 0) return options;
  options.hysteresis = kMostOverflowsInARow;
  options.consecutive_hysteresis = true;
  return options;
}

}  // namespace

LossScale::LossScale(const config::LossScalingConfig& options) : options_(completed(options)) {
  state_.scale = is_fixed()
                     ? options_.loss_scale
                     : std::max(std::exp2(static_cast<double>(options_.initial_scale_power)), options_.min_loss_scale);
  state_.hysteresis_left = options_.hysteresis;
}

void LossScale::set_state(const LossScaleState& state) {
  state_ = state;
  state_.hysteresis_left = std::min(state_.hysteresis_left, options_.hysteresis);
  if (is_fixed()) state_.scale = options_.loss_scale;
}

void LossScale::update(bool overflowed) {
  if (overflowed) {
    state_.clean = 0;
    ++state_.skipped;
    if (state_.hysteresis_left > 1)
      --state_.hysteresis_left;
    else if (!is_fixed())
      state_.scale = std::max(state_.scale / 2, options_.min_loss_scale);
    return;
  }
  if (options_.consecutive_hysteresis) state_.hysteresis_left = options_.hysteresis;
  if (++state_.clean < options_.loss_scale_window || is_fixed()) return;
  state_.clean = 0;
  state_.hysteresis_left = options_.hysteresis;
  if (std::isfinite(static_cast<float>(state_.scale * 2))) state_.scale *= 2;
}

}  // namespace trainer::optim
