// The longest batches are among those that a run actually uses.
#include "engine/train/longest_batches.h"

#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

#include "data/samples/memory_samples.h"
#include "engine/prepare/run_length.h"
#include "engine/train/batch_stream.h"

namespace trainer::train {
namespace {

int64_t sum(const std::vector<int64_t>& of) {
  return std::accumulate(of.begin(), of.end(), int64_t{0});
}

/// Irregular lengths, with one sample much longer than the others.
data::MemorySamples samples(int64_t count) {
  data::MemorySamples dataset;
  for (int64_t i = 0; i < count; ++i) {
    dataset.add(std::vector<int32_t>(i == 17 ? 200 : 5 + i * 7919 % 31, 1),
                std::vector<int32_t>(1 + i * 104729 % 13, 1));
  }
  return dataset;
}

config::Config config_of(int64_t per_device, int64_t accumulation) {
  config::Config config;
  config.seed = 3;
  config.training.per_device_train_batch_size = per_device;
  config.training.gradient_accumulation_steps = accumulation;
  config.training.num_train_epochs = 2;
  return config;
}

/// The most source and target tokens of any micro-batch, and of any rank's update, from the training stream.
struct Seen {
  int64_t source = 0, target = 0, both = 0, update = 0;
};

Seen seen_by_ranks(const config::Config& config, const data::Samples& dataset, int ranks) {
  Seen seen;
  const prepare::RunLength length = prepare::run_length(config, dataset.size(), ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    const BatchStream stream(dataset, config, length.global_batch, rank, ranks);
    int64_t consumed = 0;
    for (int64_t i = 0; i < length.updates; ++i) {
      const UpdateBatch update = stream.next(consumed);
      consumed = update.positions.end;
      int64_t tokens = 0;
      for (const models::Batch& batch : update.micro_batches) {
        const int64_t source = batch.source_ids.numel(), target = batch.labels.numel();
        seen = {std::max(seen.source, source), std::max(seen.target, target), std::max(seen.both, source + target),
                seen.update};
        tokens += source + target;
      }
      seen.update = std::max(seen.update, tokens);
    }
  }
  return seen;
}

TEST(LongestBatches, MatchTheTrainingStream) {
  const data::MemorySamples dataset = samples(103);
  for (const auto& [per_device, accumulation, ranks] : {std::array{4, 1, 1}, {8, 1, 2}, {3, 4, 2}, {200, 1, 3}}) {
    SCOPED_TRACE(::testing::Message() << per_device << " x " << accumulation << " x " << ranks);
    const config::Config config = config_of(per_device, accumulation);
    const LongestBatches found = longest_training_batches(config, dataset, ranks);
    const Seen seen = seen_by_ranks(config, dataset, ranks);
    Seen longest;
    for (const BatchLengths& batch : found.batches)
      longest = {std::max(longest.source, sum(batch.source)), std::max(longest.target, sum(batch.target)),
                 std::max(longest.both, sum(batch.source) + sum(batch.target)), 0};
    EXPECT_EQ(longest.source, seen.source);
    EXPECT_EQ(longest.target, seen.target);
    EXPECT_EQ(longest.both, seen.both);
    EXPECT_EQ(found.tokens_of_update, seen.update);
    EXPECT_EQ(found.updates_seen, prepare::run_length(config, dataset.size(), ranks).updates);
  }
}

TEST(LongestBatches, OfAnEvaluationUseTheSamplesInFileOrder) {
  config::Config config;
  config.training.per_device_eval_batch_size = 10;
  const data::MemorySamples dataset = samples(40);
  const LongestBatches found = longest_evaluation_batches(config, dataset, 1);
  const auto with_longest = std::find_if(found.batches.begin(), found.batches.end(), [](const BatchLengths& batch) {
    return std::count(batch.source.begin(), batch.source.end(), 200) == 1;
  });
  ASSERT_NE(with_longest, found.batches.end());
  std::vector<int64_t> expected;
  for (int64_t i = 10; i < 20; ++i) expected.push_back(static_cast<int64_t>(dataset.lengths(i).source));
  EXPECT_EQ(with_longest->source, expected);
}

TEST(LongestBatches, CoverOnlyTheUpdatesOfTheRun) {
  config::Config config = config_of(4, 1);
  config.training.max_steps = 1;
  const data::MemorySamples dataset = samples(103);
  const LongestBatches found = longest_training_batches(config, dataset, 1);
  EXPECT_EQ(found.updates_seen, 1);
  ASSERT_EQ(found.batches.size(), 1U);
  EXPECT_EQ(sum(found.batches[0].source), seen_by_ranks(config, dataset, 1).source);
}

}  // namespace
}  // namespace trainer::train
