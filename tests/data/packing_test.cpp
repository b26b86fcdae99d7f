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

std::multiset<size_t> sizes_of(const PackingPlan& plan) {
  std::multiset<size_t> sizes;
  for (const auto& rank : plan)
    for (const auto& batch : rank) sizes.insert(batch.size());
  return sizes;
}

TEST(Packing, EvenPlansHaveTheSizesOfSlicesAndWasteLittle) {
  for (const int64_t ranks : {1, 2, 3, 8})
    for (const int64_t per_device : {1, 4, 7}) {
      const Range positions{3, 59};
      const PackingPlan slices = plan_by_samples(positions, ranks, per_device),
                        plan = plan_evenly(positions, length_of, ranks, per_device);
      ASSERT_EQ(plan.size(), static_cast<size_t>(ranks));
      EXPECT_EQ(sizes_of(plan), sizes_of(slices)) << ranks << " x " << per_device;
      std::set<int64_t> seen;
      for (const auto& rank : plan) {
        EXPECT_EQ(rank.size(), slices[0].size());
        for (const auto& batch : rank) {
          seen.insert(batch.begin(), batch.end());
          EXPECT_TRUE(std::is_sorted(batch.begin(), batch.end()));
        }
      }
      EXPECT_EQ(seen.size(), 56u);
      EXPECT_EQ(plan, plan_evenly(positions, length_of, ranks, per_device));
      EXPECT_GE(packing_efficiency(plan, length_of), packing_efficiency(slices, length_of));
    }
  const auto short_of = [](int64_t position) { return 5 + position * 7919 % 90; };
  EXPECT_LT(packing_efficiency(plan_by_samples({0, 64}, 8, 8), short_of), 0.85);
  EXPECT_GT(packing_efficiency(plan_evenly({0, 64}, short_of, 8, 8), short_of), 0.97);
}

/// The steps of several micro-batches: the longest ones meet each other.
TEST(Packing, EvenPlansAlignTheStepsOfRanks) {
  const auto tokens = [](int64_t position) { return position < 4 ? 100 : 10; };
  EXPECT_EQ(plan_evenly({0, 8}, tokens, 4, 1), (PackingPlan{{{0}, {4}}, {{1}, {5}}, {{2}, {6}}, {{3}, {7}}}));
}

TEST(Packing, SamplesOfEqualLengthKeepTheirSlices) {
  const auto same = [](int64_t) { return 512; };
  for (const int64_t ranks : {1, 2, 5}) EXPECT_EQ(plan_evenly({7, 40}, same, ranks, 3), plan_by_samples({7, 40}, ranks, 3));
  EXPECT_EQ(plan_evenly({4, 4}, same, 2, 3), plan_by_samples({4, 4}, 2, 3));
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
