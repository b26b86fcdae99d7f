#include "engine/prepare/run_length.h"

#include <gtest/gtest.h>

#include "engine/base/errors.h"

namespace trainer::prepare {
namespace {

config::Config configuration(int64_t per_device, int64_t accumulated) {
  config::Config config;
  config.training.per_device_train_batch_size = per_device;
  config.training.gradient_accumulation_steps = accumulated;
  config.training.num_train_epochs = 2;
  config.training.dataloader_drop_last = true;
  return config;
}

struct Length {
  int64_t samples, per_device, accumulated, ranks;
  int64_t updates, left_out;
};

// Updates of 2 epochs: transformers 5.17's Trainer with dataloader_drop_last, and, of 2 and 4 ranks, the batches of
// accelerate 1.15's BatchSamplerShard.
constexpr Length kMeasured[] = {{10, 4, 1, 1, 4, 2}, {11, 2, 2, 1, 6, 1}, {20, 3, 4, 1, 4, 2}, {21, 2, 4, 1, 6, 1},
                                {7, 2, 3, 1, 2, 1},  {9, 3, 3, 1, 2, 0},  {10, 2, 1, 2, 4, 2}, {11, 2, 1, 2, 4, 3},
                                {23, 3, 1, 2, 6, 5}, {17, 2, 1, 4, 4, 1}};

TEST(RunLength, DropLastLeavesAsManySamplesAsTransformers) {
  for (const Length& length : kMeasured) {
    SCOPED_TRACE(::testing::Message() << length.samples << " samples, " << length.per_device << " x "
                                      << length.accumulated << " x " << length.ranks);
    config::Config config = configuration(length.per_device, length.accumulated);
    const RunLength run = run_length(config, length.samples, length.ranks);
    EXPECT_EQ(run.updates, length.updates);
    EXPECT_EQ(run.left_out, length.left_out);
    config.training.dataloader_drop_last = false;
    EXPECT_EQ(run_length(config, length.samples, length.ranks).left_out, 0);
  }
}

TEST(RunLength, DropLastWithAGlobalBatchDoesNotDependOnRanks) {
  config::Config config = configuration(2, 1);
  config.training.global_batch_size = 12;
  for (const int64_t ranks : {1, 2, 3, 6}) EXPECT_EQ(run_length(config, 50, ranks).left_out, 2);
}

TEST(RunLength, DropLastRefusesToLeaveNothing) {
  const config::Config config = configuration(4, 2);
  EXPECT_EQ(run_length(config, 8, 2).updates, 2);
  try {
    run_length(config, 7, 2);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_STREQ(
        error.what(),
        "training.dataloader_drop_last leaves out all 7 training samples: a batch of all ranks has 8.\n  Leave "
        "the option out, or use smaller batches.");
  }
}

}  // namespace
}  // namespace trainer::prepare
