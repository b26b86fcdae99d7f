#include "engine/train/milestones.h"

#include <functional>
#include <vector>

#include <gtest/gtest.h>

namespace trainer::train {
namespace {

/// The updates of three epochs of four updates each after which `holds` is true.
std::vector<int64_t> steps_where(const std::function<bool(const Milestones::Position&)>& holds) {
  std::vector<int64_t> steps;
  for (int64_t step = 1; step <= 12; ++step)
    if (holds({step, static_cast<double>(step) / 4, step % 4 == 0})) steps.push_back(step);
  return steps;
}

struct Schedule {
  std::vector<int64_t> evaluations, saves;
};

/// `best`: the update whose evaluation is better than all before it.
Schedule schedule_of(const config::Config& config, int64_t best = 0) {
  const Milestones milestones(config);
  return {steps_where([&](const auto& at) { return milestones.evaluates(at); }),
          steps_where([&](const auto& at) { return milestones.saves(at, at.step == best); })};
}

using Steps = std::vector<int64_t>;

TEST(Milestones, SavesEverySaveSteps) {
  config::Config config;
  config.checkpoint.save_steps = 5;
  EXPECT_EQ(schedule_of(config, 7).saves, (Steps{5, 10}));
  config.checkpoint.save_steps = 0;
  EXPECT_EQ(schedule_of(config, 7).saves, Steps{});
}

TEST(Milestones, SavesAsTheStrategySays) {
  config::Config config;
  config.checkpoint.save_steps = 5;
  config.checkpoint.save_strategy = config::SaveStrategy::kEpoch;
  EXPECT_EQ(schedule_of(config, 7).saves, (Steps{4, 8, 12}));
  config.checkpoint.save_strategy = config::SaveStrategy::kBest;
  EXPECT_EQ(schedule_of(config, 7).saves, Steps{7});
  config.checkpoint.save_strategy = config::SaveStrategy::kNo;
  EXPECT_EQ(schedule_of(config, 7).saves, Steps{});
}

TEST(Milestones, EvaluatesEveryEvalStepsOrAfterEachEpoch) {
  config::Config config;
  EXPECT_EQ(schedule_of(config).evaluations, (Steps{4, 8, 12}));
  config.evaluation.eval_steps = 5;
  EXPECT_EQ(schedule_of(config).evaluations, (Steps{5, 10}));
}

TEST(Milestones, ScheduledSavesAreEvaluatedIfTheBestIsKept) {
  config::Config config;
  config.evaluation.eval_steps = 5;
  config.checkpoint.save_steps = 6;
  config.checkpoint.metric_for_best_model = "loss";
  EXPECT_EQ(schedule_of(config).evaluations, (Steps{5, 6, 10, 12}));
  config.checkpoint.save_strategy = config::SaveStrategy::kEpoch;
  EXPECT_EQ(schedule_of(config).evaluations, (Steps{4, 5, 8, 10, 12}));
  config.checkpoint.save_strategy = config::SaveStrategy::kBest;
  EXPECT_EQ(schedule_of(config).evaluations, (Steps{5, 10}));
}

/// As transformers counts: updates if evaluations are counted in updates, else epochs.
TEST(Milestones, TheDelayIsInUpdatesOrEpochs) {
  config::Config config;
  config.evaluation.eval_delay = 2;
  EXPECT_EQ(schedule_of(config).evaluations, (Steps{8, 12}));
  config.evaluation.eval_steps = 1;
  config.evaluation.eval_delay = 10;
  EXPECT_EQ(schedule_of(config).evaluations, (Steps{10, 11, 12}));
}

}  // namespace
}  // namespace trainer::train
