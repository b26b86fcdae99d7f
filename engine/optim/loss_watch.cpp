#include "engine/optim/loss_watch.h"

#include <algorithm>
#include <cmath>

namespace trainer::optim {
namespace {

constexpr int64_t kWindow = 50;  // losses
constexpr int64_t kWarmUp = 20;   // losses before any is judged: the first ones fall fast

}  // namespace

bool LossWatch::is_spike(double loss) const {
  if (deviations_ <= 0 || state_.seen < kWarmUp) return false;
  return loss > state_.mean + deviations_ * std::sqrt(state_.variance);
}

void LossWatch::add(double loss) {
  state_.seen += 1;
  const double weight = 1.0 / static_cast<double>(std::min(state_.seen, kWindow));
  const double away = loss - state_.mean;
  state_.mean += weight * away;
  state_.variance = (1 - weight) * (state_.variance + weight * away * away);
}

}  // namespace trainer::optim
