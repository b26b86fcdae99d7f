#include "engine/train/divergence.h"

#include <algorithm>

namespace trainer::train {

using config::OnDivergence;

Divergence::Divergence(const config::TrainingConfig& training)
    : choice_(training.on_divergence), every_(training.snapshot_steps), watch_(training.loss_spike_deviations) {
  if (choice_ == OnDivergence::kRollback) snapshot_.emplace();
}

void Divergence::pass(int64_t step, double loss) {
  watch_.add(loss);
  if (step > last_step_ + (snapshot_ ? every_ : 0)) in_a_row_ = 0;
}

Divergence::Remedy Divergence::remedy(int64_t step) {
  last_step_ = std::max(last_step_, step);
  if (choice_ == OnDivergence::kStop || ++in_a_row_ > kMostInARow) return Remedy::kStop;
  return choice_ == OnDivergence::kSkip ? Remedy::kSkip : Remedy::kRollBack;
}

void Divergence::keep(parallel::ParallelModel& model, const optim::Optimizer& optimizer, int64_t step) {
  if (!snapshot_ || (kept_step_ >= 0 && step % every_ != 0)) return;
  snapshot_->take(model, optimizer);
  kept_step_ = step;
}

void Divergence::roll_back(parallel::ParallelModel& model, optim::Optimizer& optimizer) const {
  snapshot_->restore(model, optimizer);
}

}  // namespace trainer::train
