#include "data/sampler/sample_order.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

namespace trainer::data {
namespace {

std::vector<int64_t> permuted(uint64_t key, int64_t size) {
  Permutation permutation(key, size);
  std::vector<int64_t> result(size);
  for (int64_t i = 0; i < size; ++i) result[i] = permutation(i);
  return result;
}

bool is_bijection(std::vector<int64_t> values) {
  std::sort(values.begin(), values.end());
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] != static_cast<int64_t>(i)) return false;
  }
  return true;
}

std::vector<int64_t> epoch_of(const SampleOrder& order, int64_t epoch) {
  std::vector<int64_t> result;
  for (int64_t i = 0; i < order.size(); ++i) result.push_back(order.sample(epoch * order.size() + i));
  return result;
}

double chi_squared(const std::vector<int64_t>& counts) {
  double expected = static_cast<double>(std::accumulate(counts.begin(), counts.end(), int64_t{0})) / counts.size();
  double sum = 0;
  for (int64_t count : counts) sum += (count - expected) * (count - expected) / expected;
  return sum;
}

TEST(Permutation, IsABijectionOfEverySize) {
  for (int64_t size = 1; size <= 2000; ++size) ASSERT_TRUE(is_bijection(permuted(size * 7919, size))) << size;
  for (int64_t size : {65535, 65536, 65537, 100003}) ASSERT_TRUE(is_bijection(permuted(11, size))) << size;
}

TEST(Permutation, StaysInRangeForHugeSizes) {
  for (int64_t size : {int64_t{1} << 40, (int64_t{1} << 62) + 12345}) {
    Permutation permutation(3, size);
    for (int64_t i : {int64_t{0}, int64_t{1}, size / 2, size - 1}) {
      EXPECT_GE(permutation(i), 0);
      EXPECT_LT(permutation(i), size);
    }
    EXPECT_NE(permutation(0), permutation(1));
  }
}

TEST(Permutation, ReachesAllPermutationsOfFiveEquallyOften) {
  std::vector<int64_t> counts(5 * 5 * 5 * 5, 0);  // four elements determine the fifth
  constexpr int kDraws = 60000;
  for (int key = 0; key < kDraws; ++key) {
    std::vector<int64_t> p = permuted(derive_key(key, 9), 5);
    ++counts[((p[0] * 5 + p[1]) * 5 + p[2]) * 5 + p[3]];
  }
  counts.erase(std::remove(counts.begin(), counts.end(), 0), counts.end());
  ASSERT_EQ(counts.size(), 120u);
  EXPECT_LT(chi_squared(counts), 190);  // 119 degrees of freedom: 1 in 30000
}

TEST(Permutation, MapsAnElementToEveryPositionEquallyOften) {
  constexpr int64_t kSize = 97;
  for (int64_t element : {int64_t{0}, kSize / 2, kSize - 1}) {
    std::vector<int64_t> counts(kSize, 0);
    for (int key = 0; key < 20000; ++key) ++counts[Permutation(derive_key(key, 1, 0), kSize)(element)];
    EXPECT_LT(chi_squared(counts), 160) << element;  // 96 degrees of freedom: 1 in 20000
  }
}

TEST(Permutation, SeparatesNeighbors) {
  constexpr int64_t kSize = 101;
  std::vector<int64_t> counts(kSize - 1, 0);  // distance of two former neighbors, modulo the size
  for (int key = 0; key < 20000; ++key) {
    Permutation permutation(derive_key(key, 1, 7), kSize);
    ++counts[(permutation(41) - permutation(40) + kSize) % kSize - 1];
  }
  EXPECT_LT(chi_squared(counts), 165);  // 99 degrees of freedom
}

TEST(SampleOrder, IsFixed) {  // a change here changes every run and breaks resuming
  SampleOrder order(42, 10, true);
  EXPECT_EQ(epoch_of(order, 0), (std::vector<int64_t>{4, 2, 7, 8, 1, 0, 6, 3, 5, 9}));
  EXPECT_EQ(epoch_of(order, 1), (std::vector<int64_t>{7, 3, 4, 1, 9, 8, 5, 2, 6, 0}));
  EXPECT_EQ(SampleOrder(-1, 1'000'000, true).sample(123'456'789), 875395);
  EXPECT_EQ(order_digest(order, {8, 16}), "e95335865b1e1731");
}

TEST(SampleOrder, DiffersByEpochAndSeed) {
  SampleOrder order(1, 1000, true);
  auto agreeing = [](const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
    int same = 0;
    for (size_t i = 0; i < a.size(); ++i) same += a[i] == b[i];
    return same;
  };
  EXPECT_TRUE(is_bijection(epoch_of(order, 0)));
  EXPECT_TRUE(is_bijection(epoch_of(order, 5)));
  EXPECT_LT(agreeing(epoch_of(order, 0), epoch_of(order, 1)), 12);  // 1 is expected
  EXPECT_LT(agreeing(epoch_of(order, 0), epoch_of(SampleOrder(2, 1000, true), 0)), 12);
}

TEST(SampleOrder, WithoutShuffleIsFileOrder) {
  SampleOrder order(1, 4, false);
  EXPECT_EQ(epoch_of(order, 0), (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(epoch_of(order, 9), (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(order.epoch(7), 1);
}

SampleOrder ending_early(bool shuffle, bool by_length) {
  SampleOrderOptions options{7, shuffle, {6, 5}, {}, {}, /*left_out=*/3};
  if (by_length) options.length = [](int64_t sample) { return sample; };
  return SampleOrder(options);
}

TEST(SampleOrder, EpochsEndWithoutTheSamplesLeftOut) {
  for (const bool by_length : {false, true}) {
    const SampleOrder order = ending_early(/*shuffle=*/true, by_length);
    ASSERT_EQ(order.size(), 8);
    EXPECT_EQ(order.epoch(7), 0);
    EXPECT_EQ(order.epoch(8), 1);
    std::vector<int64_t> uses(11, 0);
    for (int64_t epoch = 0; epoch < 40; ++epoch) {
      std::vector<int64_t> read = epoch_of(order, epoch);
      std::sort(read.begin(), read.end());
      EXPECT_EQ(std::unique(read.begin(), read.end()), read.end()) << "epoch " << epoch;
      for (const int64_t sample : read) ++uses.at(sample);
    }
    for (const int64_t count : uses) EXPECT_GT(count, 15);  // 29 on average: each epoch leaves out others
  }
}

TEST(SampleOrder, InFileOrderTheLastSamplesAreLeftOut) {
  const SampleOrder order = ending_early(/*shuffle=*/false, /*by_length=*/false);
  EXPECT_EQ(epoch_of(order, 0), (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(epoch_of(order, 1), epoch_of(order, 0));
}

TEST(OrderDigest, DependsOnSamplesAndTheirOrder) {
  SampleOrder order(0, 100, false);
  std::string digest = order_digest(order, {0, 8});
  EXPECT_EQ(digest.size(), 16u);
  EXPECT_EQ(digest, order_digest(order, {100, 108}));  // the same samples one epoch later
  EXPECT_NE(digest, order_digest(order, {0, 9}));
  EXPECT_NE(digest, order_digest(order, {1, 9}));
  EXPECT_NE(digest, order_digest(SampleOrder(0, 100, true), {0, 8}));
  EXPECT_NE(order_digest(SampleOrder(0, 2, false), {0, 2}), order_digest(SampleOrder(0, 2, false), {1, 3}));
}

}  // namespace
}  // namespace trainer::data
