#include "engine/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace trainer::optim {

LearningRate::LearningRate(config::Schedule schedule, double base, double warmup, int64_t total_updates)
    : schedule_(schedule),
      base_(base),
      warmup_(static_cast<int64_t>(warmup < 1 ? std::ceil(static_cast<double>(total_updates) * warmup) : warmup)),
      total_(total_updates) {}

double LearningRate::at(int64_t update) const {
  if (schedule_ == config::Schedule::kConstant) return base_;
  if (update < warmup_) return base_ * static_cast<double>(update) / static_cast<double>(std::max<int64_t>(1, warmup_));
  const auto left = static_cast<double>(std::max<int64_t>(1, total_ - warmup_));
  switch (schedule_) {
    case config::Schedule::kLinear:
      return base_ * std::max(0.0, static_cast<double>(total_ - update) / left);
    case config::Schedule::kCosine: {
      const double progress = static_cast<double>(update - warmup_) / left;
      return base_ * std::max(0.0, 0.5 * (1.0 + std::cos(std::numbers::pi * progress)));
    }
    default:
      return base_;
  }
}

}  // namespace trainer::optim
