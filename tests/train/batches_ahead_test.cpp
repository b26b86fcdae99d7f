// Batches for a device are collated while it works.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "engine/train/batches_ahead.h"
#include "tests/simulated/pinned.h"
#include "tests/support/device.h"

namespace trainer::testing {
namespace {

using train::BatchesAhead;
using train::BatchStream;

/// Sample i has i + 1 tokens.
class Counted : public data::Samples {
 public:
  int64_t size() const override { return 20; }
  void read(int64_t index, data::Sample& sample) const override {
    if (index == broken) throw std::runtime_error("this sample is broken");
    sample.source.assign(static_cast<size_t>(index) + 1, static_cast<int32_t>(index));
    sample.labels = {1};
    sample.parts.clear();
    ++reads;
  }
  data::Lengths lengths(int64_t index) const override { return {index + 1, 1, 1}; }

  void wait_for(int count) const {
    for (int i = 0; i < 10000 && reads < count; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  int64_t broken = -1;
  mutable std::atomic<int> reads = 0;
};

config::Config four_at_a_time() {
  config::Config config;
  config.data.shuffle = false;
  config.training.per_device_train_batch_size = 4;
  return config;
}

TEST(BatchesAhead, AreReadWithoutBeingAskedForOnADeviceOnly) {
  const Counted samples;
  {
    BatchesAhead on_cpu(BatchStream(samples, four_at_a_time(), 4, 0, 1));
    on_cpu.next(0);
    BatchesAhead stream(BatchStream(samples, four_at_a_time(), 4, 0, 1, device()));
    EXPECT_EQ(samples.reads, 4);
    stream.next(0);
    samples.wait_for(12);
  }
  EXPECT_EQ(samples.reads, 12);
}

TEST(BatchesAhead, AreTheSameInPinnedMemoryWhereverTheRunContinues) {
  const Counted samples;
  BatchesAhead stream(BatchStream(samples, four_at_a_time(), 4, 0, 1, device()));
  const BatchStream on_cpu(samples, four_at_a_time(), 4, 0, 1);
  for (const int64_t consumed : {0, 4, 8, 0, 4, 16, 20, 24, 12}) {  // back as after a divergence, and into new epochs
    const train::UpdateBatch found = stream.next(consumed), expected = on_cpu.next(consumed);
    EXPECT_EQ(found.positions.begin, expected.positions.begin);
    EXPECT_EQ(found.digest, expected.digest);
    ASSERT_EQ(found.micro_batches.size(), expected.micro_batches.size());
    for (size_t i = 0; i < found.micro_batches.size(); ++i) {
      const models::Batch &mine = found.micro_batches[i], &same = expected.micro_batches[i];
      EXPECT_TRUE(mine.source_ids.equal(same.source_ids));
      EXPECT_TRUE(mine.labels.equal(same.labels));
      EXPECT_TRUE(simulated::is_pinned(mine.source_ids.const_data_ptr()));
      EXPECT_TRUE(simulated::is_pinned(mine.labels.const_data_ptr()));
    }
  }
}

TEST(BatchesAhead, AnErrorIsThatOfTheUpdateThatNeedsTheSample) {
  Counted samples;
  samples.broken = 5;
  BatchesAhead stream(BatchStream(samples, four_at_a_time(), 4, 0, 1, device()));
  EXPECT_NO_THROW(stream.next(0));
  EXPECT_THROW(stream.next(4), std::runtime_error);
  EXPECT_NO_THROW(stream.next(8));
}

}  // namespace
}  // namespace trainer::testing
