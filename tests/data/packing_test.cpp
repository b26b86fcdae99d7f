#include "data/sampler/packing.h"

#include <set>

#include <gtest/gtest.h>

namespace trainer::data {
namespace {

int64_t length_of(int64_t position) {
  return position == 5 ? 300 : 5 + position * 7919 % 90;
}

TEST(Packing, TakesEverySampleOnceWithoutOverflow) {
  for (const int64_t ranks : {1, 2, 3, 8}) {
    const PackingPlan plan = plan_by_tokens({0, 64}, length_of, ranks, 256);
    ASSERT_EQ(plan.size(), static_cast<size_t>(ranks));
    std::multiset<int64_t> seen;
    for (const auto& rank : plan) {
      EXPECT_EQ(rank.size(), plan[0].size());
      for (const auto& batch : rank) {
        int64_t tokens = 0;
        for (const int64_t position : batch) seen.insert(position), tokens += length_of(position);
        EXPECT_TRUE(tokens <= 256 || batch.size() == 1) << tokens;
        EXPECT_TRUE(std::is_sorted(batch.begin(), batch.end()));
      }
    }
    EXPECT_EQ(seen.size(), 64u);
    EXPECT_EQ(std::set<int64_t>(seen.begin(), seen.end()).size(), 64u);
    EXPECT_EQ(plan, plan_by_tokens({0, 64}, length_of, ranks, 256));
  }
}

TEST(Packing, ByTokensWastesLessThanBySamples) {
  const double by_samples = packing_efficiency(plan_by_samples({0, 64}, 4, 4), length_of),
               by_tokens = packing_efficiency(plan_by_tokens({0, 64}, length_of, 4, 400), length_of);
  EXPECT_GT(by_tokens, by_samples);
  EXPECT_GT(by_tokens, 0.9);
  EXPECT_LE(by_tokens, 1.0);
  EXPECT_DOUBLE_EQ(packing_efficiency(plan_by_samples({0, 64}, 1, 4), length_of), 1.0);
}

TEST(Packing, FewSamplesLeaveRanksEmpty) {
  const PackingPlan plan = plan_by_tokens({0, 1}, length_of, 3, 100);
  EXPECT_EQ(plan, (PackingPlan{{{0}}, {{}}, {{}}}));
}

TEST(Packing, BySamplesEqualsMicroBatches) {
  EXPECT_EQ(plan_by_samples({10, 15}, 2, 2), (PackingPlan{{{10, 11}, {12}}, {{13}, {14}}}));
}

}  // namespace
}  // namespace trainer::data
