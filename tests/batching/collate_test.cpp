#include "engine/batching/collate.h"

#include <gtest/gtest.h>

namespace trainer::batching {
namespace {

std::vector<int64_t> values_of(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<int64_t>(), tensor.const_data_ptr<int64_t>() + tensor.numel()};
}

struct Collate : testing::Test {
  Collate() {
    const std::vector<std::vector<int32_t>> sources{{2, 3, 1}, {4, 1}, {5, 6, 7, 1}}, targets{{8, 1}, {9, 10, 1}, {1}};
    for (size_t i = 0; i < sources.size(); ++i) samples.add(sources[i], targets[i], static_cast<int64_t>(i));
  }
  data::Dataset samples;
};

TEST_F(Collate, TokensLieEndToEndInTheOrderOfPositions) {
  const models::Batch batch = collate(samples, {7, 9}, [](int64_t position) { return position == 7 ? 2 : 0; });
  EXPECT_EQ(values_of(batch.source_ids), (std::vector<int64_t>{5, 6, 7, 1, 2, 3, 1}));
  EXPECT_EQ(values_of(batch.labels), (std::vector<int64_t>{1, 8, 1}));
  EXPECT_EQ(batch.target_tokens, 3);
  ASSERT_EQ(batch.source->samples(), 2);
  EXPECT_EQ(batch.source->spans[1].begin, 4);
  EXPECT_EQ(batch.source->spans[1].length, 3);
  EXPECT_EQ(batch.target->spans[1].begin, 1);
  EXPECT_EQ(batch.source->positions, (std::vector<int64_t>{7, 8}));  // of the run, not of the data
  EXPECT_EQ(batch.target->positions, batch.source->positions);
}

TEST_F(Collate, AnEmptyRangeIsAnEmptyBatch) {
  const models::Batch batch = collate(samples, {4, 4}, [](int64_t) { return 0; });
  EXPECT_EQ(batch.source_ids.numel(), 0);
  EXPECT_EQ(batch.labels.numel(), 0);
  EXPECT_EQ(batch.source->samples(), 0);
  EXPECT_EQ(batch.target_tokens, 0);
}

TEST_F(Collate, CountsTokens) {
  const TokenCount count = count_tokens(samples, {0, 3}, [](int64_t position) { return position; });
  EXPECT_EQ(count.source, 9);
  EXPECT_EQ(count.target, 6);
}

}  // namespace
}  // namespace trainer::batching
