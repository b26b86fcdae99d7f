// The largest batch that fits, alone and on several ranks.
#include "engine/train/batch_size.h"

#include <gtest/gtest.h>

#include "engine/base/errors.h"
#include "engine/base/free_memory.h"
#include "engine/prepare/run_length.h"
#include "engine/train/memory_plan.h"
#include "tests/support/ranks.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_folder.h"

namespace trainer::train {
namespace {

config::Plan plan_of(config::DistributedType type, int64_t ranks) {
  static const testing::TemporaryFolder cache, output;
  config::Plan plan;
  config::Config& c = plan.config;
  c.distributed_type = type;
  c.num_processes = ranks;
  c.output_dir = output.path().string();
  c.model.config =
      R"({"model_type": "t5", "vocab_size": 512, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4})";
  c.tokenizer.path = source_dir() + "/tests/golden/tokenizer/unigram";
  c.data.train.path = {source_dir() + "/data/examples/reports.txt"};
  c.data.train.format = config::DataFormat::kDelimited;
  c.data.train.columns = {"source", "target"};
  c.data.max_samples = 200;
  c.data.cache_dir = cache.path().string();
  c.training.per_device_train_batch_size = 64;
  c.training.auto_find_batch_size = true;
  return plan;
}

int64_t peak_with(config::Plan plan, const prepare::Inputs& inputs, int64_t per_device) {
  plan.config.training.global_batch_size = prepare::global_batch(plan.config.training, plan.world_size());
  plan.config.training.per_device_train_batch_size = per_device;
  return plan_memory(plan, make_blueprint(plan), workload_of(plan, inputs.datasets)).peak();
}

TEST(BatchSize, IsTheLargestThatFits) {
  const config::Plan plan = plan_of(config::DistributedType::kNo, 1);
  const prepare::Inputs inputs = prepare::load_inputs(plan);
  for (const int64_t wanted : {1, 7, 20, 63}) {
    const auto bytes = static_cast<int64_t>(static_cast<double>(peak_with(plan, inputs, wanted)) / 0.9) + 2;
    const int64_t found = largest_batch_size(plan, inputs, bytes);
    EXPECT_GE(found, wanted);
    EXPECT_LE(peak_with(plan, inputs, found), peak_with(plan, inputs, wanted));
    EXPECT_GT(peak_with(plan, inputs, found + 1), peak_with(plan, inputs, wanted));
  }
  EXPECT_EQ(largest_batch_size(plan, inputs, int64_t{1} << 40), 64);
  EXPECT_EQ(largest_batch_size(plan, inputs, 1000), 0);
}

TEST(BatchSize, PlansTheLayersOfTheDevice) {
  config::Plan on_gpus = plan_of(config::DistributedType::kFsdp, 2), on_cpus = on_gpus;
  on_cpus.config.use_cpu = true;
  const prepare::Inputs inputs = prepare::load_inputs(on_gpus);
  Workload workload = workload_of(on_gpus, inputs.datasets);
  workload.transport = dist::Transport::kDevices;
  const int64_t needed = plan_memory(on_gpus, make_blueprint(on_gpus), workload).peak();
  const auto bytes = static_cast<int64_t>(static_cast<double>(needed) / 0.9) + 2;
  // The GPU's layers keep attention's scores, so a batch that fills the GPU would leave room on a CPU.
  EXPECT_GT(needed, peak_with(on_cpus, inputs, 64));
  EXPECT_EQ(largest_batch_size(on_gpus, inputs, bytes), 64);
  EXPECT_EQ(largest_batch_size(on_cpus, inputs, bytes), 64);
  EXPECT_LT(largest_batch_size(on_gpus, inputs, bytes * 9 / 10), 64);
  EXPECT_GT(largest_batch_size(on_cpus, inputs, bytes * 9 / 10), largest_batch_size(on_gpus, inputs, bytes * 9 / 10));
}

TEST(BatchSize, RanksAgreeOnTheSmallestAndKeepTheGlobalBatch) {
  for (const auto type : {config::DistributedType::kMultiCpu, config::DistributedType::kFsdp}) {
    const config::Plan plan = plan_of(type, 2);
    const prepare::Inputs inputs = prepare::load_inputs(plan);
    const auto little = static_cast<int64_t>(static_cast<double>(peak_with(plan, inputs, 5)) / 0.9) + 2;
    const int64_t expected = largest_batch_size(plan, inputs, little);
    ASSERT_LT(expected, 64);
    testing::run_ranks(2, [&](dist::Comm& comm) {
      config::Plan mine = plan;
      find_batch_size(mine, inputs, comm, comm.rank() == 1 ? little : int64_t{1} << 40);
      EXPECT_EQ(mine.config.training.per_device_train_batch_size, expected);
      EXPECT_EQ(prepare::global_batch(mine.config.training, 2), 128);
      EXPECT_EQ(mine.origins.at("training.per_device_train_batch_size"), "auto_find_batch_size");
    });
  }
}

TEST(BatchSize, ThrowsWhenNothingFits) {
  config::Plan plan = plan_of(config::DistributedType::kNo, 1);
  const prepare::Inputs inputs = prepare::load_inputs(plan);
  testing::run_ranks(1,
                     [&](dist::Comm& comm) { EXPECT_THROW(find_batch_size(plan, inputs, comm, 1000), MachineError); });
}

TEST(BatchSize, NamesWhatWouldFit) {
  config::Plan plan = plan_of(config::DistributedType::kNo, 1);
  plan.source = "job.yaml";
  const prepare::Inputs inputs = prepare::load_inputs(plan);
  const int64_t needed = peak_with(plan, inputs, 64);
  EXPECT_NO_THROW(check_memory(plan, inputs, needed));
  try {
    check_memory(plan, inputs, needed * 3 / 4);
    ADD_FAILURE() << "it doesn't fit";
  } catch (const MachineError& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.find("job.yaml: this rank needs "), 0U) << text;
    EXPECT_NE(text.find("\n    training.per_device_train_batch_size: "), std::string::npos) << text;
  }
}

TEST(FreeMemory, IsPlausible) {
  EXPECT_GT(free_memory(), int64_t{1} << 20);
  EXPECT_LT(free_memory(), int64_t{1} << 50);
}

}  // namespace
}  // namespace trainer::train
