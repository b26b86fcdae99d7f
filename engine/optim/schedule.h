#pragma once

#include <cstdint>

#include "engine/config/sections/training.h"

namespace trainer::optim {

/// The learning rate of each update, by transformers' and DeepSpeed's formulas. Updates count from 0.
class LearningRate {
 public:
  /// `warmup` as TrainingArguments' warmup_steps: below 1 it is a ratio of `total_updates`, rounded up.
  LearningRate(config::Schedule schedule, double base, double warmup, int64_t total_updates,
               const config::ScheduleConfig& more = {});
  double at(int64_t update) const;

 private:
  double of_transformers(int64_t update) const;
  double stable_and_decay(int64_t update) const;
  double cosine_to_least(double progress) const;
  double from_and_to_least(int64_t update) const;
  double cycles(double otherwise) const;
  double of_deepspeed(int64_t update) const;
  double cosine_of_deepspeed(int64_t update) const;
  double warmed_up(int64_t step) const;

  config::Schedule schedule_;
  double base_;
  int64_t warmup_, total_;
  config::ScheduleConfig more_;
};

}  // namespace trainer::optim
