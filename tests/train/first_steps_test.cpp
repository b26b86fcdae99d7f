// Violates each assertion of FirstSteps.
#include "engine/train/first_steps.h"

#include <cmath>

#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>

#include "data/samples/memory_samples.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/optim/optimizer.h"
#include "tests/support/golden_case.h"
#include "tests/support/ranks.h"

namespace trainer::testing {
namespace {

using config::DistributedType;

config::Plan plan_of(bool lora, DistributedType type = DistributedType::kNo, int ranks = 1) {
  config::Plan plan;
  plan.config.model.config = read_file(GoldenCase("v1_0").plan.config.model.path + "/config.json");
  plan.config.distributed_type = type;
  plan.config.num_processes = ranks;
  if (lora) plan.config.lora.emplace();  // B starts at zero
  return plan;
}

train::UpdateBatch small_update() {
  train::UpdateBatch update;
  update.positions = {0, 2};
  update.micro_batches = {make_batch({{5, 8, 1}, {7, 1}}, {{2, 3, 1}, {6, 1}})};
  update.target_tokens = 5;
  return update;
}

/// Makes updates as the trainer does. Returns the warning.
std::string watch(parallel::ParallelModel& model, train::FirstSteps& steps, const config::Plan& plan,
                  std::vector<double> rates = {1e-2, 1e-2}) {
  const auto optimizer = optim::make_optimizer(plan.config.training, model.logical_tensors(), model.comm());
  std::string warning;
  for (const double rate : rates) {
    const train::UpdateBatch update = small_update();
    model.update(update.micro_batches, update.target_tokens * model.comm().size(), {});
    steps.see_gradients();
    optimizer->step(model.logical_tensors(), rate);
    model.zero_grad();
    warning += steps.see_update(rate);
  }
  return warning;
}

TEST(FirstSteps, AcceptsLoraAWithoutGradientInFirstUpdate) {
  for (const auto& [type, ranks] : {std::pair{DistributedType::kNo, 1}, {DistributedType::kFsdp, 3}}) {
    const config::Plan plan = plan_of(true, type, ranks);
    run_ranks(ranks, [&](dist::Comm& comm) {
      const auto model = make_model(plan, comm);
      train::FirstSteps steps(*model);
      EXPECT_EQ(watch(*model, steps, plan), "");
      EXPECT_TRUE(steps.done());
    });
  }
}

TEST(FirstSteps, WaitsForALearningRateAboveZero) {
  const config::Plan plan = plan_of(true);
  const auto comm = dist::solo_comm();
  const auto model = make_model(plan, *comm);
  train::FirstSteps steps(*model);
  EXPECT_EQ(watch(*model, steps, plan, {0, 0, 1e-2}), "");  // a warm-up begins with 0
  EXPECT_FALSE(steps.done());
  EXPECT_EQ(watch(*model, steps, plan, {1e-2}), "");
  EXPECT_TRUE(steps.done());
}

TEST(FirstSteps, NamesTrainedTensorsWithoutAGradient) {
  // Targets of one token: the decoder's self-attention has a single key, so that nothing depends on its queries.
  for (const auto& [type, ranks] : {std::pair{DistributedType::kNo, 1}, {DistributedType::kFsdp, 2}}) {
    const config::Plan plan = plan_of(false, type, ranks);
    run_ranks(ranks, [&](dist::Comm& comm) {
      const auto model = make_model(plan, comm);
      const auto optimizer = optim::make_optimizer(plan.config.training, model->logical_tensors(), comm);
      train::FirstSteps steps(*model);
      std::string warning;
      for (int i = 0; i < 2; ++i) {
        model->update({make_batch({{5, 8, 1}}, {{2}})}, ranks, {});
        steps.see_gradients();
        optimizer->step(model->logical_tensors(), 1e-2);
        model->zero_grad();
        warning = steps.see_update(1e-2);
      }
      EXPECT_NE(warning.find("got no gradient in the first updates: decoder.block.0.layer.0.SelfAttention"),
                std::string::npos)
          << warning;
      EXPECT_NE(warning.find("more"), std::string::npos) << warning;
    });
  }
}

TEST(FirstSteps, RefusesARunThatTrainsNothing) {
  config::Plan plan = plan_of(true);
  plan.config.lora->target_modules.pattern = "decoder.*SelfAttention.q";  // nothing depends on it, as above
  const auto comm = dist::solo_comm();
  const auto model = make_model(plan, *comm);
  const auto optimizer = optim::make_optimizer(plan.config.training, model->logical_tensors(), *comm);
  train::FirstSteps steps(*model);
  const auto update = [&] {
    model->update({make_batch({{5, 8, 1}}, {{2}})}, 1, {});
    steps.see_gradients();
    optimizer->step(model->logical_tensors(), 1e-2);
    model->zero_grad();
    steps.see_update(1e-2);
  };
  update();
  EXPECT_THROW(update(), InputError);
}

TEST(FirstSteps, RefusesAFrozenTensorThatChanges) {
  const config::Plan plan = plan_of(true);
  const auto comm = dist::solo_comm();
  const auto model = make_model(plan, *comm);
  train::FirstSteps steps(*model);
  for (const auto& tensor : model->logical_tensors())
    if (tensor.name == "encoder.block.1.layer.1.DenseReluDense.wo.weight") tensor.value.add_(1);
  try {
    steps.see_update(1e-2);
    FAIL() << "the change was not detected";
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find("encoder.block.1.layer.1.DenseReluDense.wo.weight"), std::string::npos);
  }
}

TEST(FirstSteps, RefusesTiedNamesOfTwoWeights) {
  const auto comm = dist::solo_comm();
  const auto model = make_model(plan_of(false), *comm);
  EXPECT_NO_THROW(train::FirstSteps{*model});
  nn::Module* head = nullptr;
  model->model().visit([&](nn::Module& module) {
    if (module.path() == "lm_head") head = &module;
  });
  ASSERT_NE(head, nullptr);
  auto copy = std::make_shared<nn::Parameter>(*head->parameters()[0].second);
  copy->value = copy->value.detach().clone();
  head->set_parameter("weight", copy);  // without updating the tied names
  EXPECT_THROW(train::FirstSteps{*model}, InternalError);
}

TEST(FirstSteps, RefusesAnUpdateWithAllLabelsMasked) {
  const auto comm = dist::solo_comm();
  const auto model = make_model(plan_of(false), *comm);
  const train::FirstSteps steps(*model);
  train::UpdateBatch update = small_update();
  EXPECT_NO_THROW(steps.check_batch(update));
  update.micro_batches = {make_batch({{5, 8, 1}, {7, 1}}, {{-100, -100}, {-100}})};
  update.target_tokens = 0;
  EXPECT_THROW(steps.check_batch(update), InputError);
}

TEST(FirstSteps, RefusesAnUpdateWithTheWrongSamplesOrLabels) {
  const config::Plan plan = plan_of(false, DistributedType::kMultiCpu, 2);
  run_ranks(2, [&](dist::Comm& comm) {
    const auto model = make_model(plan, comm);
    const train::FirstSteps steps(*model);
    train::UpdateBatch update = small_update();  // both ranks take both samples
    EXPECT_THROW(steps.check_batch(update), InternalError);
    update.positions = {0, 4};
    EXPECT_THROW(steps.check_batch(update), InternalError);
    update.target_tokens = 10;
    EXPECT_NO_THROW(steps.check_batch(update));
  });
}

/// Each sample consists of two documents; attention doesn't cross them.
class TwoDocuments : public data::MemorySamples {
 public:
  TwoDocuments() : MemorySamples(data::LabelKind::kNext) {
    for (int i = 0; i < 4; ++i) add({5, 1, 6, 7}, {1, -100, 7, 1});
  }
  void read(int64_t index, data::Sample& sample) const override {
    data::MemorySamples::read(index, sample);
    sample.parts = {0, 2};
  }
};

TEST(FirstSteps, CountsASampleOfSeveralDocumentsOnce) {
  const config::Plan plan = plan_of(false, DistributedType::kMultiCpu, 2);
  run_ranks(2, [&](dist::Comm& comm) {
    const auto model = make_model(plan, comm);
    const train::FirstSteps steps(*model);
    const TwoDocuments samples;
    const train::UpdateBatch update = train::BatchStream(samples, plan.config, 4, comm.rank(), 2).next(0);
    EXPECT_EQ(update.micro_batches.at(0).target->samples(), 4);
    EXPECT_NO_THROW(steps.check_batch(update));
  });
}

TEST(FirstSteps, NamesTheTensorWithANonFiniteGradient) {
  const config::Plan plan = plan_of(false, DistributedType::kFsdp, 2);
  run_ranks(2, [&](dist::Comm& comm) {
    const auto model = make_model(plan, comm);
    for (const auto& tensor : model->logical_tensors())
      if (tensor.name == "encoder.final_layer_norm.weight") tensor.grad.fill_(NAN);
    EXPECT_EQ(train::not_finite(*model), "encoder.final_layer_norm.weight");
  });
}

}  // namespace
}  // namespace trainer::testing
