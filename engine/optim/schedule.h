#pragma once

#include <cstdint>

#include "engine/config/sections.h"

namespace trainer::optim {

/// The learning rate of each update, by transformers' formulas. Updates are counted from 0.
class LearningRate {
 public:
  /// `warmup` as TrainingArguments' warmup_steps: below 1 it is a ratio of `total_updates`, rounded up.
  LearningRate(config::Schedule schedule, double base, double warmup, int64_t total_updates);
  double at(int64_t update) const;

 private:
  config::Schedule schedule_;
  double base_;
  int64_t warmup_, total_;
};

}  // namespace trainer::optim
