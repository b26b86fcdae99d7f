// T5 against values from transformers and PEFT (tests/golden/make_t5.py).
#include <cmath>
#include <fstream>

#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/norm.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "engine/evaluation/generate.h"
#include "models/t5/position_bias.h"
#include "tests/support/golden_case.h"
#include "tests/support/source_dir.h"

namespace trainer::testing {
namespace {

constexpr double kTolerance = 1e-5, kLossesTolerance = 1e-4;  // against another implementation in fp32

class T5Golden : public ::testing::TestWithParam<std::string> {
 protected:
  T5Golden() : golden(GetParam()), comm(dist::solo_comm()), model(make_model(golden.plan, *comm)) {}

  double update(size_t batch) {
    nn::Pass pass;  // no dropout
    return model->update({golden.batches[batch]}, golden.batches[batch].target_tokens, pass);
  }

  GoldenCase golden;
  std::unique_ptr<dist::Comm> comm;
  std::unique_ptr<parallel::ParallelModel> model;
};

TEST_P(T5Golden, LogitsMatchTransformers) {
  const at::NoGradGuard no_grad;
  const models::Batch& batch = golden.batches[0];
  const at::Tensor logits = model->model().logits(batch, {});
  for (int64_t i = 0; i < batch.target->samples(); ++i) {
    const nn::Span span = batch.target->spans[i];
    const at::Tensor expected = golden.tensors.tensor("logits_" + std::to_string(i));
    EXPECT_LT(relative_error(logits.narrow(0, span.begin, span.length), expected), kTolerance) << "sample " << i;
  }
}

TEST_P(T5Golden, LossAndGradientsMatchTransformers) {
  const double loss = update(0);
  EXPECT_EQ(golden.batches[0].target_tokens, golden.expected["target_tokens"].get<int64_t>());
  EXPECT_NEAR(loss / golden.expected["loss_sum"].get<double>(), 1.0, kTolerance);
  const auto tensors = model->logical_tensors();
  double all = 0;
  for (const auto& tensor : tensors)
    if (tensor.trainable) all += std::pow(tensor.grad.norm().item<double>(), 2);
  size_t compared = 0;
  for (const auto& tensor : tensors) {
    if (!tensor.trainable) continue;
    const at::Tensor expected = golden.tensors.tensor(golden.gradient_name(tensor.name)).view(-1);
    const double difference = (tensor.grad - expected).norm().item<double>();
    EXPECT_LE(difference, kTolerance * expected.norm().item<double>() + 1e-8 * std::sqrt(all)) << tensor.name;
    ++compared;
  }
  size_t gradients = 0;
  for (const std::string& name : golden.tensors.names()) gradients += name.starts_with("gradient.");
  EXPECT_EQ(compared, gradients);
}

TEST_P(T5Golden, TenUpdatesOfAdamWHaveTheSameLosses) {
  const auto& training = golden.expected["training"];
  config::TrainingConfig options;
  options.weight_decay = training["weight_decay"];
  for (const auto kind : {config::OptimizerName::kAdamWFused, config::OptimizerName::kAdamW}) {
    options.optim = kind;
    model = make_model(golden.plan, *comm);
    const auto optimizer = optim::make_optimizer(options, model->logical_tensors(), model->comm());
    const optim::LearningRate schedule(config::Schedule::kLinear, training["learning_rate"], training["warmup_steps"],
                                       training["updates"]);
    for (size_t i = 0; i < training["losses"].size(); ++i) {
      const size_t batch = training["batch_order"][i];
      const double loss = update(batch) / static_cast<double>(golden.batches[batch].target_tokens);
      const double norm = model->clip_grad_norm(training["max_grad_norm"]);
      EXPECT_NEAR(loss / training["losses"][i].get<double>(), 1.0, kLossesTolerance) << "update " << i;
      EXPECT_NEAR(norm / training["grad_norms"][i].get<double>(), 1.0, 10 * kLossesTolerance) << "update " << i;
      EXPECT_DOUBLE_EQ(schedule.at(static_cast<int64_t>(i)), training["learning_rates"][i].get<double>());
      optimizer->step(model->logical_tensors(), schedule.at(static_cast<int64_t>(i)));
      model->zero_grad();
    }
  }
}

TEST_P(T5Golden, GreedyDecodingGivesTheSameTokens) {
  const auto& generation = golden.expected["generation"];
  const auto found = evaluation::generate(*model, golden.batches[0], generation["max_new_tokens"], {});
  for (size_t i = 0; i < found.size(); ++i) {
    auto expected = generation["tokens"][i].get<std::vector<int64_t>>();
    if (!expected.empty() && expected.back() == model->model().end_tokens()[0]) expected.pop_back();
    EXPECT_EQ(found[i], expected) << "sample " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, T5Golden,
                         ::testing::Values("v1_0", "v1_1", "v1_0/lora_qv", "v1_0/lora_all", "v1_1/lora_saved_head"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '/', '_');
                           return name;
                         });

/// In bf16, our error against fp64 is at most 1.5 times that of torch.autocast.
class T5Bf16 : public ::testing::TestWithParam<std::string> {};

TEST_P(T5Bf16, ErrorIsComparableToAutocast) {
  constexpr double kFactor = 1.5;
  GoldenCase golden(GetParam());
  golden.plan.config.mixed_precision = config::MixedPrecision::kBf16;
  const auto comm = dist::solo_comm();
  const auto model = make_model(golden.plan, *comm);
  const models::Batch& batch = golden.batches[0];
  model->update({batch}, batch.target_tokens, {});
  std::vector<at::Tensor> found, expected;
  for (const auto& tensor : model->logical_tensors()) {
    found.push_back(tensor.grad.to(at::kDouble));
    expected.push_back(golden.tensors.tensor("gradient." + tensor.name).view(-1).to(at::kDouble));
  }
  const auto& autocast = golden.expected["autocast_error"];
  double difference = 0, size = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    difference += std::pow((found[i] - expected[i]).norm().item<double>(), 2);
    size += std::pow(expected[i].norm().item<double>(), 2);
  }
  EXPECT_LE(std::sqrt(difference / size), kFactor * autocast["all_gradients"].get<double>());
  const at::NoGradGuard no_grad;
  nn::Pass pass;
  pass.compute = at::kBFloat16;
  const at::Tensor logits = model->model().logits(batch, pass);
  double logits_difference = 0, logits_size = 0;
  for (int64_t i = 0; i < batch.target->samples(); ++i) {
    const nn::Span span = batch.target->spans[i];
    const auto exact = golden.tensors.tensor("logits_" + std::to_string(i)).to(at::kDouble);
    logits_difference +=
        std::pow((logits.narrow(0, span.begin, span.length).to(at::kDouble) - exact).norm().item<double>(), 2);
    logits_size += std::pow(exact.norm().item<double>(), 2);
  }
  EXPECT_LE(std::sqrt(logits_difference / logits_size), kFactor * autocast["logits"].get<double>());
}

INSTANTIATE_TEST_SUITE_P(Cases, T5Bf16, ::testing::Values("bf16_v1_0", "bf16_v1_1"),
                         [](const auto& info) { return info.param; });

nlohmann::json golden_tables() {
  std::ifstream in(source_dir() + "/tests/golden/tables.json");
  return nlohmann::json::parse(in);
}

TEST(T5PositionBias, BucketsMatchTransformers) {
  const nlohmann::json tables = golden_tables();
  for (const auto& table : tables["position_buckets"]) {
    int64_t distance = table["first_position"];
    for (const int64_t expected : table["buckets"].get<std::vector<int64_t>>()) {
      EXPECT_EQ(
          models::t5::position_bucket(distance, table["bidirectional"], table["num_buckets"], table["max_distance"]),
          expected)
          << "distance " << distance;
      ++distance;
    }
  }
}

}  // namespace
}  // namespace trainer::testing
