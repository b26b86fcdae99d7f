// DDP's ranks that share memory hold one copy of what is trained: Note [Shared copies].
#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>

#include "engine/config/names.h"
#include "engine/optim/optimizer.h"
#include "tests/support/golden_case.h"
#include "tests/support/ranks.h"

namespace trainer::testing {
namespace {

config::Plan plan_of(config::OptimizerName optim) {
  config::Plan plan = GoldenCase("v1_0").plan;
  plan.config.distributed_type = config::DistributedType::kMultiCpu;
  plan.config.training.optim = optim;
  return plan;
}

void fill_gradients(parallel::ParallelModel& model) {
  for (const parallel::LogicalTensor& tensor : model.logical_tensors())
    if (tensor.trainable) tensor.grad.fill_(0.5);
}

TEST(SharedCopies, AreUpdatedByEveryRankInPart) {
  constexpr int kRanks = 3;
  const config::Plan plan = plan_of(config::OptimizerName::kAdamWFused);
  std::array<std::vector<std::pair<int64_t, int64_t>>, kRanks> parts;
  std::vector<int64_t> sizes;
  run_ranks(kRanks, [&](dist::Comm& comm) {
    const auto model = make_model(plan, comm);
    for (const parallel::LogicalTensor& tensor : model->logical_tensors()) {
      EXPECT_NE(tensor.sharers, nullptr);
      EXPECT_TRUE(tensor.replicated);
      EXPECT_EQ(tensor.value.numel(), tensor.numel());
      parts[comm.rank()].emplace_back(tensor.first, tensor.last);
      if (comm.rank() == 0) sizes.push_back(tensor.numel());
    }
    // What one rank writes, all have.
    const at::Tensor& value = model->logical_tensors().front().value;
    if (comm.rank() == 1) value.fill_(3);
    comm.barrier();
    EXPECT_TRUE((value == 3).all().item<bool>());
  });
  for (size_t i = 0; i < sizes.size(); ++i) {
    int64_t at = 0;
    for (const auto& of_rank : parts) {
      EXPECT_EQ(of_rank[i].first, at);
      at = of_rank[i].second;
    }
    EXPECT_EQ(at, sizes[i]);
  }
  for (const auto& of_rank : parts)
    EXPECT_TRUE(std::any_of(of_rank.begin(), of_rank.end(), [](const auto& part) { return part.second > part.first; }));
}

TEST(SharedCopies, HaveTheValuesAndStateOfOneRank) {
  for (const auto& [optim, name] : config::EnumNames<config::OptimizerName>::values) {
    SCOPED_TRACE(name);
    const config::Plan plan = plan_of(optim);
    std::vector<at::Tensor> expected;
    const auto train = [&](dist::Comm& comm, const auto& see) {
      const auto model = make_model(plan, comm);
      const auto optimizer = optim::make_optimizer(plan.config.training, model->logical_tensors(), comm);
      for (int i = 0; i < 3; ++i) {
        fill_gradients(*model);
        optimizer->step(model->logical_tensors(), 1e-2);
      }
      std::vector<at::Tensor> all;
      for (const parallel::LogicalTensor& tensor : model->logical_tensors()) all.push_back(tensor.value);
      for (const optim::StateTensor& state : optimizer->state()) all.push_back(state.value);
      see(*model, all);
    };
    train(*dist::solo_comm(), [&](auto&, const auto& all) { expected = all; });
    run_ranks(3, [&](dist::Comm& comm) {
      train(comm, [&](auto& model, const auto& found) {
        EXPECT_EQ(model.logical_tensors().front().sharers != nullptr, optim::updates_by_element(optim));
        ASSERT_EQ(found.size(), expected.size());
        for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(at::equal(found[i], expected[i])) << i;
      });
    });
  }
}

/// An asynchronous save of another rank may still read the weights when this one comes to its step.
TEST(SharedCopies, AreUpdatedWhenAllRanksHaveComeToTheStep) {
  const config::Plan plan = plan_of(config::OptimizerName::kSgd);
  run_ranks(2, [&](dist::Comm& comm) {
    const auto model = make_model(plan, comm);
    const auto optimizer = optim::make_optimizer(plan.config.training, model->logical_tensors(), comm);
    fill_gradients(*model);
    const at::Tensor& value = model->logical_tensors().back().value;  // a part of rank 1
    const at::Tensor before = value.clone();
    comm.barrier();
    if (comm.rank() == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      EXPECT_TRUE(at::equal(value, before));
    }
    optimizer->step(model->logical_tensors(), 1e-2);
    EXPECT_TRUE((value != before).all().item<bool>());
  });
}

}  // namespace
}  // namespace trainer::testing
