#include "engine/batching/collate.h"

#include "engine/batching/prompts.h"

#include <gtest/gtest.h>

#include "data/samples/memory_samples.h"

namespace trainer::batching {
namespace {

std::vector<int64_t> values_of(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<int64_t>(), tensor.const_data_ptr<int64_t>() + tensor.numel()};
}

struct Collate : ::testing::Test {
  Collate() {
    const std::vector<std::vector<int32_t>> sources{{2, 3, 1}, {4, 1}, {5, 6, 7, 1}}, targets{{8, 1}, {9, 10, 1}, {1}};
    for (size_t i = 0; i < sources.size(); ++i) samples.add(sources[i], targets[i]);
  }
  data::MemorySamples samples;
};

const std::vector<int64_t> kTwo{7, 8};

TEST_F(Collate, PacksTokensBackToBackInSampleOrder) {
  const models::Batch batch = collate(samples, kTwo, [](int64_t position) { return position == 7 ? 2 : 0; });
  EXPECT_EQ(values_of(batch.source_ids), (std::vector<int64_t>{5, 6, 7, 1, 2, 3, 1}));
  EXPECT_EQ(values_of(batch.labels), (std::vector<int64_t>{1, 8, 1}));
  EXPECT_EQ(batch.target_tokens, 3);
  ASSERT_EQ(batch.source->samples(), 2);
  EXPECT_EQ(batch.source->spans[1].begin, 4);
  EXPECT_EQ(batch.source->spans[1].length, 3);
  EXPECT_EQ(batch.target->spans[1].begin, 1);
  EXPECT_EQ(batch.source->sample_index, (std::vector<int64_t>{7, 8}));  // in the run, not in the data
  EXPECT_EQ(batch.target->sample_index, batch.source->sample_index);
}

TEST_F(Collate, AnEmptyRangeGivesAnEmptyBatch) {
  const models::Batch batch = collate(samples, {}, [](int64_t) { return 0; });
  EXPECT_EQ(batch.source_ids.numel(), 0);
  EXPECT_EQ(batch.labels.numel(), 0);
  EXPECT_EQ(batch.source->samples(), 0);
  EXPECT_EQ(batch.target_tokens, 0);
}

TEST(CollateCausal, LabelsShareTheLayoutOfTheSource) {
  data::MemorySamples samples(data::LabelKind::kNext);
  samples.add({5, 6, 7}, {-100, 7, 1});
  samples.add({8, 9}, {9, -100});
  const std::vector<int64_t> both{0, 1};
  const models::Batch batch = collate(samples, both, [](int64_t position) { return position; });
  EXPECT_EQ(batch.target, batch.source);
  EXPECT_EQ(values_of(batch.labels), (std::vector<int64_t>{-100, 7, 1, 9, -100}));
  EXPECT_EQ(batch.target_tokens, 3);
}

/// Two documents in one sample.
class TwoParts : public data::MemorySamples {
 public:
  using data::MemorySamples::MemorySamples;
  void read(int64_t index, data::Sample& sample) const override {
    data::MemorySamples::read(index, sample);
    sample.parts = {0, 2};
  }
};

TEST(CollateCausal, SeparatesTheDocumentsOfASample) {
  TwoParts samples(data::LabelKind::kNext);
  samples.add({5, 6, 7}, {6, 7, 1});
  const std::vector<int64_t> one{3};
  const models::Batch batch = collate(samples, one, [](int64_t) { return 0; });
  ASSERT_EQ(batch.source->samples(), 2);
  EXPECT_EQ(batch.source->spans[1].begin, 2);
  EXPECT_EQ(batch.source->spans[1].length, 1);
  EXPECT_NE(batch.source->sample_index[0], batch.source->sample_index[1]);  // their dropout differs
  EXPECT_EQ(sample_count(*batch.source), 1);
}

TEST(SampleCount, CountsWholeSamples) {
  TwoParts samples(data::LabelKind::kNext);
  samples.add({5, 6, 7}, {6, 7, 1});
  const std::vector<int64_t> three{0, 1, int64_t{1} << 39};
  EXPECT_EQ(sample_count(*collate(samples, three, [](int64_t) { return 0; }).target), 3);
  EXPECT_EQ(sample_count({}), 0);
}

TEST(Prompts, EndWhereTheLastReplyBegins) {
  data::MemorySamples samples(data::LabelKind::kNext);
  samples.add({1, 2, 3, 4, 5, 6}, {2, -100, -100, 5, 6, -100});  // the replies are 2, and 5 6
  samples.add({1, 2, 3}, {2, 3, 4});
  data::Sample prompt;
  const Prompts prompts(samples);
  prompts.read(0, prompt);
  EXPECT_EQ(prompt.source, (std::vector<int32_t>{1, 2, 3, 4}));
  prompts.read(1, prompt);
  EXPECT_EQ(prompt.source, (std::vector<int32_t>{1}));
  EXPECT_EQ(prompts.lengths(0).source, 4);
}

}  // namespace
}  // namespace trainer::batching
