// Helpers of tests that train tiny parallelized models.
#pragma once

#include <map>
#include <string>

#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/optim/optimizer.h"
#include "engine/parallel/gather.h"
#include "engine/selftest/matrix.h"
#include "engine/selftest/outcome.h"
#include "engine/selftest/random_samples.h"
#include "engine/train/batch_stream.h"
#include "engine/train/build.h"
#include "engine/weights/export.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"

namespace trainer::testing {

using selftest::Setting, selftest::Strategy, selftest::TinyModel;

inline TinyModel model_named(const std::string& name) {
  for (TinyModel& model : selftest::tiny_models())
    if (model.name == name) return model;
  throw InternalError("no model {}", name);
}

inline TinyModel with(TinyModel model, const std::string& change) {
  nlohmann::json config = nlohmann::json::parse(model.config);
  config.update(nlohmann::json::parse(change));
  model.config = config.dump();
  return model;
}

/// `plan`: the setting's, or with other options.
inline selftest::Outcome outcome_of(const Setting& setting, const config::Plan& plan) {
  const data::MemorySamples samples = selftest::random_samples(setting.model);
  selftest::Outcome outcome;
  run_ranks(
      setting.strategy.ranks,
      [&](dist::Comm& comm) {
        selftest::Outcome mine = selftest::train(plan, samples, comm);
        if (comm.rank() == 0) outcome = std::move(mine);  // losses and gathered gradients are the same on every rank
      },
      setting.strategy.share_memory);
  return outcome;
}

inline selftest::Outcome outcome_of(const Setting& setting) {
  return outcome_of(setting, selftest::plan_of(setting));
}

inline void expect_as_on_one_rank(const Setting& setting) {
  const auto difference = selftest::difference(outcome_of(setting), outcome_of(setting.reference()), setting.bf16);
  EXPECT_TRUE(difference.fits()) << "first loss " << difference.first_loss << ", gradients " << difference.gradients
                                 << " (" << difference.worst_gradient << "), losses " << difference.losses;
}

/// A model, its optimizer and its training data.
struct Training {
  Training(const Setting& setting, dist::Comm& comm) : Training(selftest::plan_of(setting), setting.model, comm) {}
  Training(config::Plan of, const TinyModel& tiny, dist::Comm& comm)
      : plan(std::move(of)), samples(selftest::random_samples(tiny)) {
    train::Blueprint blueprint = train::make_blueprint(plan);
    model = train::make_parallel(plan, blueprint, comm);
    optimizer = optim::make_optimizer(plan.config.training, model->logical_tensors(), comm);
  }

  train::UpdateBatch batch(int64_t consumed) {
    dist::Comm& data = model->mesh().data();
    return train::BatchStream(samples, plan.config, selftest::kGlobalBatch, data.rank(), data.size()).next(consumed);
  }
  /// Losses of `count` updates.
  std::vector<double> train(int count) {
    std::vector<double> losses;
    for (int i = 0; i < count; ++i, consumed += selftest::kGlobalBatch) {
      const train::UpdateBatch update = batch(consumed);
      nn::Pass pass;
      pass.training = true;
      losses.push_back(model->update(update.micro_batches, update.target_tokens, pass));
      model->clip_grad_norm(1);
      optimizer->step(model->logical_tensors(), 5e-3);
      model->zero_grad();
    }
    return losses;
  }
  checkpoint::RunState state() { return {*model, *optimizer}; }

  config::Plan plan;
  data::MemorySamples samples;
  std::unique_ptr<parallel::ParallelModel> model;
  std::unique_ptr<optim::Optimizer> optimizer;
  int64_t consumed = 0;
};

/// All trained values and all optimizer state, gathered.
inline std::map<std::string, at::Tensor> everything(Training& run) {
  std::map<std::string, at::Tensor> all;
  std::map<std::string, parallel::LogicalTensor> by_name;
  for (const auto& tensor : run.model->logical_tensors()) {
    by_name[tensor.name] = tensor;
    all[tensor.name] = parallel::gather(tensor, run.model->comm()).clone();
  }
  for (const optim::StateTensor& state : run.optimizer->state())
    all[state.kind + " " + state.parameter] =
        parallel::gather(state.logical(by_name.at(state.parameter)), run.model->comm()).clone();
  return all;
}

/// Trains `spread` and saves a checkpoint, which `other` loads and saves again for `spread`: all three must hold the
/// same bits.
inline void expect_checkpoint_moves(const Setting& spread, const Setting& other, config::OptimizerName optim) {
  const TemporaryFolder folder;
  std::map<std::string, at::Tensor> first;
  const auto in_ranks = [&](const Setting& setting, const std::function<void(Training&)>& work) {
    run_ranks(
        setting.strategy.ranks,
        [&](dist::Comm& comm) {
          config::Plan plan = selftest::plan_of(setting);
          plan.config.training.optim = optim;
          Training run(std::move(plan), setting.model, comm);
          work(run);
        },
        setting.strategy.share_memory);
  };
  const auto save = [&](Training& run, int64_t step) {
    checkpoint::Manifest about;
    about.progress.step = step;
    checkpoint::save(folder.path(), about, run.state(), [](const auto&) {});
  };
  const auto load_and_compare = [&](Training& run) {
    checkpoint::load(checkpoint::newest_checkpoint(folder.path().string())->folder, run.state());
    const auto found = everything(run);
    ASSERT_EQ(found.size(), first.size());
    for (const auto& [name, value] : first) EXPECT_TRUE(at::equal(found.at(name), value)) << name;
  };
  in_ranks(spread, [&](Training& run) {
    run.train(3);
    save(run, 3);
    auto mine = everything(run);
    if (run.model->comm().rank() == 0) first = std::move(mine);
  });
  in_ranks(other, [&](Training& run) {
    load_and_compare(run);
    save(run, 4);
  });
  in_ranks(spread, load_and_compare);
}

}  // namespace trainer::testing
