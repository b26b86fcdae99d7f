// what_fits() with a simple formula in place of the memory plan.
#include "engine/train/memory_fit.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "data/samples/memory_samples.h"
#include "engine/base/errors.h"

namespace trainer::train {
namespace {

config::Plan plan_of(int64_t batch = 8, int64_t ranks = 8) {
  config::Plan plan;
  config::Config& c = plan.config;
  c.data.task = config::Task::kCausalLm;
  c.data.max_length = 4096;
  c.data.validation.fraction = 0.1;
  c.distributed_type = config::DistributedType::kFsdp;
  c.num_processes = ranks;
  c.training.per_device_train_batch_size = batch;
  c.training.per_device_eval_batch_size = 8;
  return plan;
}

/// 800 for the weights over all ranks, plus 1 per 128 tokens of each sample, a quarter of that with recomputation.
int64_t peak_of(const config::Plan& plan) {
  const config::Config& c = plan.config;
  const int64_t kept = c.training.per_device_train_batch_size * c.data.max_length / 128;
  const int64_t shares = c.distributed_type == config::DistributedType::kFsdp ? c.num_processes : 1;
  return 800 / shares + (c.training.gradient_checkpointing ? kept / 4 : kept);
}

std::vector<std::string> changes(const config::Plan& plan, int64_t usable, size_t most = 10) {
  std::vector<std::string> all;
  for (const Alternative& other : what_fits(plan, peak_of, usable, most)) {
    EXPECT_LE(other.peak, usable) << other.change;
    all.push_back(other.change);
  }
  return all;
}

using Changes = std::vector<std::string>;

TEST(MemoryFit, NamesTheLargestOfEachKindThatFits) {
  ASSERT_EQ(peak_of(plan_of()), 100 + 256);
  EXPECT_EQ(changes(plan_of(), 300), (Changes{"training.gradient_checkpointing: true",
                                              "training.per_device_train_batch_size: 6, per_device_eval_batch_size: 6",
                                              "data.max_length: 3200", "num_processes: 32"}));
  EXPECT_EQ(changes(plan_of(), 300, 2).size(), 2U);
}

TEST(MemoryFit, NamesNothingThatDoesNotFit) {
  EXPECT_EQ(changes(plan_of(1), 5), Changes());
}

TEST(MemoryFit, CombinesChangesThatAreNotEnoughAlone) {
  const config::Plan plan = plan_of(8, 4);  // weights: 200
  EXPECT_EQ(changes(plan, 100), (Changes{"num_processes: 32, training.gradient_checkpointing: true"}));
  EXPECT_EQ(changes(plan_of(), 102), (Changes{"data.max_length: 128, training.gradient_checkpointing: true",
                                              "num_processes: 32, training.gradient_checkpointing: true"}));
}

TEST(MemoryFit, ProposesFsdpForAReplicatedModel) {
  config::Plan plan = plan_of(1, 2);
  plan.config.distributed_type = config::DistributedType::kMultiGpu;
  EXPECT_EQ(changes(plan, 300), (Changes{"distributed_type: FSDP, num_processes: 4"}));
  plan.config.parallelism_config.emplace().tp_size = 2;
  EXPECT_EQ(changes(plan, 300), Changes()) << "the new mesh would be unknown";
}

TEST(MemoryFit, TreatsAnInvalidPlanAsNotFitting) {
  const auto refuses = [](const config::Plan&) -> int64_t { throw ConfigError("no"); };
  EXPECT_TRUE(what_fits(plan_of(), refuses, 1000, 4).empty());
}

TEST(MemoryFit, KeepsTheGlobalBatch) {
  const config::Plan plan = with_batch_size(plan_of(), 3);
  EXPECT_EQ(plan.config.training.global_batch_size, 64);
  EXPECT_EQ(plan.config.training.per_device_train_batch_size, 3);
}

TEST(MemoryFit, ShortensSamplesToTheOption) {
  auto samples = std::make_shared<data::MemorySamples>(data::LabelKind::kNext);
  samples->add(std::vector<int32_t>(50, 1), std::vector<int32_t>(50, 1));
  samples->add({1, 1, 1}, {1, 1, 1});
  data::Datasets datasets{samples, std::make_shared<data::NoSamples>(), {}, {}};
  config::DataConfig read_as;
  read_as.task = config::Task::kCausalLm;
  read_as.max_length = 50;
  config::DataConfig planned = read_as;
  planned.max_length = 20;
  EXPECT_EQ(shortened(datasets, read_as, read_as).train, datasets.train);
  const data::Datasets found = shortened(datasets, read_as, planned);
  EXPECT_EQ(found.train->lengths(0).source, 20);
  EXPECT_EQ(found.train->lengths(0).learned, 20);
  EXPECT_EQ(found.train->lengths(1).source, 3);
  EXPECT_TRUE(found.validation->empty());
}

}  // namespace
}  // namespace trainer::train
