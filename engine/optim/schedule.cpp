#include "engine/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace trainer::optim {
namespace {

using config::Schedule;

double half_cosine(double progress) {
  return 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
}

double ratio(int64_t part, int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(std::max<int64_t>(1, whole));
}

bool is_of_deepspeed(Schedule schedule) {
  return schedule == Schedule::kWarmupLr || schedule == Schedule::kWarmupDecayLr ||
         schedule == Schedule::kWarmupCosineLr;
}

}  // namespace

LearningRate::LearningRate(Schedule schedule, double base, double warmup, int64_t total_updates,
                           const config::ScheduleConfig& more)
    : schedule_(schedule),
      base_(base),
      warmup_(static_cast<int64_t>(warmup < 1 ? std::ceil(static_cast<double>(total_updates) * warmup) : warmup)),
      total_(total_updates),
      more_(more) {
  if (!is_of_deepspeed(schedule)) return;
  warmup_ = std::max<int64_t>(2, warmup_);
  if (more.total_num_steps > 0) total_ = more.total_num_steps;
}

double LearningRate::at(int64_t update) const {
  return is_of_deepspeed(schedule_) ? of_deepspeed(update) : of_transformers(update);
}

double LearningRate::of_transformers(int64_t update) const {
  if (schedule_ == Schedule::kConstant) return base_;
  if (schedule_ == Schedule::kWarmupStableDecay) return base_ * stable_and_decay(update);
  if (schedule_ == Schedule::kCosineWarmupWithMinLr) return base_ * from_and_to_least(update);
  if (update < warmup_) return base_ * ratio(update, warmup_);
  const double progress = ratio(update - warmup_, total_ - warmup_);
  switch (schedule_) {
    case Schedule::kLinear:
      return base_ * std::max(0.0, ratio(total_ - update, total_ - warmup_));
    case Schedule::kCosine:
      return base_ * std::max(0.0, half_cosine(2 * cycles(0.5) * progress));
    case Schedule::kCosineWithRestarts:
      return progress >= 1 ? 0 : base_ * std::max(0.0, half_cosine(std::fmod(cycles(1) * progress, 1.0)));
    case Schedule::kCosineWithMinLr:
      return base_ * std::max(0.0, cosine_to_least(progress));
    case Schedule::kPolynomial:
      if (update > total_) return more_.lr_end;
      return (base_ - more_.lr_end) * std::pow(1 - progress, more_.power) + more_.lr_end;
    case Schedule::kInverseSqrt: {
      const int64_t scale = more_.timescale > 0 ? more_.timescale : warmup_ > 0 ? warmup_ : 10'000;
      return base_ / std::sqrt(static_cast<double>(update + scale - warmup_) / static_cast<double>(scale));
    }
    default:
      return base_;
  }
}

double LearningRate::cycles(double otherwise) const {
  return more_.num_cycles > 0 ? more_.num_cycles : otherwise;
}

/// The multiple of the base rate in a schedule that ends at min_lr or min_lr_rate.
double LearningRate::cosine_to_least(double progress) const {
  const double least = more_.min_lr_rate >= 0 ? more_.min_lr_rate : std::max(0.0, more_.min_lr) / base_;
  return half_cosine(2 * cycles(0.5) * progress) * (1 - least) + least;
}

/// The multiple of the base rate in cosine_warmup_with_min_lr, whose decay is an update ahead of cosine_with_min_lr's.
double LearningRate::from_and_to_least(int64_t update) const {
  if (update >= warmup_) return std::max(0.0, cosine_to_least(ratio(update - warmup_ + 1, total_ - warmup_)));
  if (more_.warmup_lr_rate < 0) return ratio(update + 1, warmup_);
  return more_.warmup_lr_rate + (1 - more_.warmup_lr_rate) * ratio(update, warmup_ - 1);
}

/// The multiple of the base rate in warmup_stable_decay.
double LearningRate::stable_and_decay(int64_t update) const {
  const double least = more_.min_lr_ratio;
  if (update < warmup_) {
    const double progress = ratio(update, warmup_);
    const double risen = more_.warmup_type == "cosine"   ? 1 - half_cosine(progress)
                         : more_.warmup_type == "1-sqrt" ? 1 - std::sqrt(1 - progress)
                                                         : progress;
    return std::max(0.0, risen * (1 - least) + least);
  }
  const int64_t decay = more_.num_decay_steps;
  const int64_t stable = more_.num_stable_steps >= 0 ? more_.num_stable_steps : total_ - warmup_ - decay;
  if (update < warmup_ + stable) return 1;
  if (update >= warmup_ + stable + decay) return least;
  const double progress = ratio(update - warmup_ - stable, decay);
  const double left = more_.decay_type == "linear"   ? 1 - progress
                      : more_.decay_type == "1-sqrt" ? 1 - std::sqrt(progress)
                                                     : half_cosine(2 * cycles(0.5) * progress);
  return std::max(0.0, left * (1 - least) + least);
}

/// DeepSpeed's schedules start counting after the first update, so the first two updates have the same rate, except for
/// the cosine, whose first rate is 0.
double LearningRate::of_deepspeed(int64_t update) const {
  if (schedule_ == Schedule::kWarmupCosineLr) return update == 0 ? 0.0 : cosine_of_deepspeed(update);
  const int64_t step = std::max<int64_t>(0, update - 1);
  const double risen = base_ - more_.warmup_min_lr;
  if (step < warmup_) return more_.warmup_min_lr + risen * warmed_up(step);
  if (schedule_ == Schedule::kWarmupLr) return base_;
  return more_.warmup_min_lr + risen * std::max(0.0, ratio(total_ - step, total_ - warmup_));
}

double LearningRate::cosine_of_deepspeed(int64_t update) const {
  const int64_t step = update - 1;
  if (step < warmup_) return base_ * std::lerp(more_.warmup_min_ratio, 1.0, warmed_up(step));
  const double progress = std::min(1.0, ratio(step - warmup_ + 1, total_ - warmup_));
  return base_ * std::lerp(more_.cos_min_ratio, 1.0, half_cosine(progress));
}

/// Progress of the warmup, from 0 to 1.
double LearningRate::warmed_up(int64_t step) const {
  if (more_.warmup_type == "linear") return ratio(step, warmup_);
  return std::log(static_cast<double>(step + 1)) / std::log(static_cast<double>(warmup_));
}

}  // namespace trainer::optim
