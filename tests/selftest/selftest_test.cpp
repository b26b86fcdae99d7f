// The self-test's own parts: what it chooses, what it measures, and that it can fail.
#include <algorithm>

#include <gtest/gtest.h>

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

#include "engine/selftest/matrix.h"
#include "engine/selftest/run.h"
#include "engine/selftest/table.h"

namespace trainer::selftest {
namespace {

bool meets(const std::vector<Setting>& settings, const std::string& model, bool lora, const std::string& strategy,
           bool recompute) {
  return std::any_of(settings.begin(), settings.end(), [&](const Setting& s) {
    return s.model.name == model && s.strategy.name == strategy && (s.lora == lora || s.recompute == recompute);
  });
}

TEST(Matrix, OfPairsHasEveryModelWithEveryStrategyItCanRun) {
  const auto all = full_matrix(4), pairs = pairwise_matrix(4);
  EXPECT_LT(pairs.size() * 4, all.size());
  for (const Setting& s : all)
    EXPECT_TRUE(meets(pairs, s.model.name, true, s.strategy.name, true) ||
                meets(pairs, s.model.name, false, s.strategy.name, false))
        << s.name();
}

TEST(Matrix, LeavesOutWhatNeedsMoreRanks) {
  for (const Setting& s : full_matrix(2)) EXPECT_LE(s.strategy.ranks, 2);
  EXPECT_EQ(strategies(1).back().ranks, 1);
}

TEST(Matrix, OfOneSeedIsTheSame) {
  const auto a = random_settings(4, 5, 20), b = random_settings(4, 5, 20), c = random_settings(4, 6, 20);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i].name() + a[i].model.config, b[i].name() + b[i].model.config);
  EXPECT_TRUE(std::any_of(a.begin(), a.end(), [&](const Setting& s) { return s.model.config != c[0].model.config; }));
}

Outcome outcome_of(double loss, double gradient) {
  return {{1, loss}, {{"big", at::ones({100})}, {"weight", at::full({4}, gradient)}}};
}

TEST(Difference, IsRelativeAndNamesTheGradient) {
  EXPECT_TRUE(difference(outcome_of(2, 3), outcome_of(2, 3), false).fits());
  const Difference d = difference(outcome_of(2, 3.01), outcome_of(2, 3), false);
  EXPECT_FALSE(d.fits());
  EXPECT_EQ(d.worst_gradient, "weight");
  EXPECT_NEAR(d.gradients, 0.01 / 3, 2e-4);
  EXPECT_FALSE(difference(outcome_of(2.001, 3), outcome_of(2, 3), false).fits());
  EXPECT_TRUE(difference(outcome_of(2.001, 3), outcome_of(2, 3), /*bf16=*/true).fits());
}

TEST(Difference, DoesNotFitWhereAGradientIsMissingOrNotANumber) {
  Outcome found = outcome_of(2, 3);
  found.gradients.erase("weight");
  EXPECT_FALSE(difference(found, outcome_of(2, 3), false).fits());
  EXPECT_FALSE(difference(outcome_of(std::nan(""), 3), outcome_of(2, 3), false).fits());
  EXPECT_FALSE(difference(outcome_of(2, std::nan("")), outcome_of(2, 3), false).fits());
}

TEST(Table, NamesWhatDiffers) {
  Result good, bad;
  good.setting = bad.setting = pairwise_matrix(1).front();
  bad.difference = difference(outcome_of(3, 3), outcome_of(2, 3), false);
  EXPECT_NE(table({good}).find("All 1 cases"), std::string::npos);
  const std::string text = table({good, bad});
  EXPECT_NE(text.find("DIFFERS  " + bad.setting.name()), std::string::npos);
  EXPECT_NE(text.find("1 of 2 cases"), std::string::npos);
}

}  // namespace
}  // namespace trainer::selftest
