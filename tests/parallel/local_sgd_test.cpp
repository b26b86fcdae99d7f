#include "engine/parallel/local_sgd_model.h"

#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "engine/base/files.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "tests/support/golden_case.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"

namespace trainer::testing {
namespace {

using Weights = std::map<std::string, at::Tensor>;

/// Two ranks with separate samples, whose numbers of labels differ.
class LocalRun {
 public:
  LocalRun(dist::Comm& comm, int64_t local_steps, config::OptimizerName optim) : comm_(comm) {
    config::Plan plan;
    config::Config& c = plan.config;
    c.model.config = read_file(GoldenCase("v1_0").plan.config.model.path + "/config.json");
    c.distributed_type = config::DistributedType::kMultiCpu;
    c.num_processes = comm.size();
    c.training.local_sgd_steps = local_steps;
    c.training.optim = optim;
    model = make_model(plan, comm);
    optimizer = optim::make_optimizer(c.training, model->logical_tensors(), comm);
  }

  void train(int updates) {
    for (int i = 0; i < updates; ++i) {
      const models::Batch mine = comm_.rank() == 0 ? make_batch({{5, 8, 1}, {7 + step % 5, 1}}, {{2, 3, 1}, {6, 1}})
                                                   : make_batch({{9, 4, 4, 1}}, {{11, 1}});
      model->update({mine}, 7, {});  // five labels and two
      model->clip_grad_norm(0);
      optimizer->step(model->logical_tensors(), 1e-2);
      model->after_update(++step);
      model->zero_grad();
    }
  }

  Weights weights() const {
    Weights all;
    for (const auto& tensor : model->logical_tensors()) all[tensor.name] = tensor.value.clone();
    return all;
  }

  /// Collective. Whether all ranks have bitwise equal weights.
  bool together() {
    const at::NoGradGuard no_grad;
    double difference = 0;
    for (const auto& [name, value] : weights()) {
      const at::Tensor of_first = value.clone();
      comm_.broadcast(of_first, 0);
      difference += at::equal(of_first, value) ? 0 : 1;
    }
    return comm_.sum(difference) == 0;
  }

  void save(const std::filesystem::path& folder) {
    std::vector<at::Tensor> state;
    for (const auto& tensor : optimizer->state()) state.push_back(tensor.value);
    model->average_replicas(state);
    checkpoint::Manifest about;
    about.progress.step = step;
    checkpoint::save(folder, about, {*model, *optimizer}, [](const auto&) {});
  }

  std::unique_ptr<parallel::ParallelModel> model;
  std::unique_ptr<optim::Optimizer> optimizer;
  int64_t step = 0;

 private:
  dist::Comm& comm_;
};

TEST(LocalSgd, AveragingAfterEveryUpdateIsDataParallelSgd) {
  run_ranks(2, [](dist::Comm& comm) {
    LocalRun local(comm, 1, config::OptimizerName::kSgd), ddp(comm, 0, config::OptimizerName::kSgd);
    local.train(5), ddp.train(5);
    const Weights found = local.weights();
    for (const auto& [name, value] : ddp.weights()) EXPECT_LT(relative_error(found.at(name), value), 1e-6) << name;
  });
}

TEST(LocalSgd, RanksAgreeOnlyAfterEveryFourthUpdate) {
  run_ranks(2, [](dist::Comm& comm) {
    LocalRun run(comm, 4, config::OptimizerName::kAdamWFused);
    for (int64_t step = 1; step <= 9; ++step) {
      run.train(1);
      EXPECT_EQ(run.together(), step % 4 == 0) << "update " << step;
    }
  });
}

TEST(LocalSgd, CheckpointHoldsTheMeanAndResumesFromIt) {
  const TemporaryFolder folder;
  run_ranks(2, [&](dist::Comm& comm) {
    LocalRun first(comm, 4, config::OptimizerName::kAdamWFused), second(comm, 4, config::OptimizerName::kAdamWFused);
    first.train(6);
    Weights mean = first.weights();
    {
      const at::NoGradGuard no_grad;
      for (auto& [name, value] : mean) comm.all_reduce(value), value.div_(2);
    }
    first.save(folder.path());
    EXPECT_TRUE(first.together());
    for (const auto& [name, value] : first.weights()) EXPECT_TRUE(at::equal(value, mean.at(name))) << name;
    checkpoint::load(checkpoint::checkpoint_path(folder.path(), 6), {*second.model, *second.optimizer});
    second.step = 6;
    first.train(3), second.train(3);
    const Weights resumed = second.weights();
    for (const auto& [name, value] : first.weights()) EXPECT_TRUE(at::equal(value, resumed.at(name))) << name;
  });
}

TEST(LocalSgd, EveryRankSeesAnOverflowOnOne) {
  run_ranks(2, [](dist::Comm& comm) {
    LocalRun run(comm, 4, config::OptimizerName::kSgd);
    run.model->update({make_batch({{5, 1}}, {{2, 1}})}, 4, {});
    if (comm.rank() == 1) run.model->logical_tensors()[0].grad.fill_(INFINITY);
    EXPECT_FALSE(std::isfinite(run.model->clip_grad_norm(1)));
  });
}

}  // namespace
}  // namespace trainer::testing
