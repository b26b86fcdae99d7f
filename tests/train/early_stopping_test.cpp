#include "engine/train/early_stopping.h"

#include <optional>
#include <vector>

#include <gtest/gtest.h>

namespace trainer::train {
namespace {

config::Config options(int64_t patience, double threshold, const std::string& metric = "none") {
  config::Config config;
  config.evaluation.early_stopping_patience = patience;
  config.evaluation.early_stopping_threshold = threshold;
  config.checkpoint.metric_for_best_model = metric;
  return config;
}

/// The number of the evaluation after which the run stops, counted from 1; 0: it doesn't.
int stops_at(const config::Config& config, const std::vector<std::optional<double>>& values) {
  EarlyStopping stopping(config);
  for (size_t i = 0; i < values.size(); ++i) {
    const std::string& metric = config.checkpoint.metric_for_best_model;
    std::map<std::string, double> measured{{"eval_something_else", 1}};
    if (values[i]) measured["eval_" + (metric == "none" ? "loss" : metric)] = *values[i];
    EarlyStopping next(config);  // as after a resume
    next.set_state(stopping.state());
    next.see(measured);
    stopping = next;
    if (stopping.stops()) return static_cast<int>(i) + 1;
  }
  return 0;
}

TEST(EarlyStopping, CountsEvaluationsThatAreNoBetter) {
  EXPECT_EQ(stops_at(options(2, 0), {3, 2, 2, 2}), 4);
  EXPECT_EQ(stops_at(options(2, 0), {3, 2, 2.5, 1.9, 2, 2.1, 0}), 6);
  EXPECT_EQ(stops_at(options(3, 0), {3, 4, 5}), 0);
  EXPECT_EQ(stops_at(options(1, 0), {3, 4}), 2);
}

TEST(EarlyStopping, GreaterAccuracyIsBetter) {
  EXPECT_EQ(stops_at(options(2, 0, "accuracy"), {0.1, 0.2, 0.2, 0.1}), 4);
  EXPECT_EQ(stops_at(options(2, 0, "accuracy"), {0.1, 0.2, 0.1, 0.3, 0.4}), 0);
}

/// As in transformers: the best is the best of all, also if it was not better by the threshold.
TEST(EarlyStopping, ASmallGainIsNoneButCountsForTheNext) {
  EXPECT_EQ(stops_at(options(2, 0.5), {3, 2.8, 2.6}), 3);
  EXPECT_EQ(stops_at(options(2, 0.5), {3, 2.8, 2.2, 2.1, 2.0}), 5);
}

TEST(EarlyStopping, AMissingMetricIsNoBetter) {
  EXPECT_EQ(stops_at(options(2, 0), {3, std::nullopt, std::nullopt}), 3);  // the loss was not finite
  EXPECT_EQ(stops_at(options(2, 0), {std::nullopt, std::nullopt}), 2);
}

TEST(EarlyStopping, IsOffByDefault) {
  EXPECT_EQ(stops_at({}, {1, 2, 3, 4, 5}), 0);
}

}  // namespace
}  // namespace trainer::train
