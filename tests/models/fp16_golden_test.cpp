// Ten fp16 updates compared with torch.autocast plus torch.amp.GradScaler, both against fp64
// (tests/golden/make_fp16.py).
#include <cmath>
#include <fstream>

#include <gtest/gtest.h>

#include "engine/optim/loss_scale.h"
#include "tests/support/golden_case.h"
#include "tests/support/source_dir.h"

namespace trainer::testing {
namespace {

constexpr double kFactor = 1.5;  // limit of our error relative to autocast's

nlohmann::json read_json(const std::string& path) {
  std::ifstream in(source_dir() + "/tests/golden/" + path);
  return nlohmann::json::parse(in);
}

class Fp16Golden : public ::testing::TestWithParam<std::string> {
 protected:
  Fp16Golden() : golden(read_json("fp16.json")), expected(golden["models"][GetParam()]) {
    const bool causal = GetParam().starts_with("llama");
    const nlohmann::json file = read_json(GetParam() + (causal ? "/batch.json" : "/batches.json"));
    const nlohmann::json& samples = causal ? file["samples"] : file["batches"][0]["samples"];
    std::vector<std::vector<int64_t>> sources, labels;
    for (const auto& sample : samples) sources.push_back(sample["source"]), labels.push_back(sample["labels"]);
    batch = make_batch(sources, labels);
    if (causal) batch.target = batch.source;
    plan.config.model.path = source_dir() + "/tests/golden/" + GetParam();
    plan.config.num_processes = 1;
    plan.config.mixed_precision = config::MixedPrecision::kFp16;
    if (causal) plan.config.data.task = config::Task::kCausalLm;
  }

  struct Run {
    std::vector<double> losses, scales;
  };
  Run train(int64_t scale_power) {
    const auto comm = dist::solo_comm();
    const auto model = make_model(plan, *comm);
    const auto optimizer = optim::make_optimizer(plan.config.training, model->logical_tensors(), *comm);
    config::LossScalingConfig scaling;
    scaling.initial_scale_power = scale_power;
    optim::LossScale scale(scaling);
    Run run;
    for (int64_t i = 0; i < golden["updates"].get<int64_t>(); ++i) {
      model->set_loss_scale(scale.scale());
      const double loss = model->update({batch}, batch.target_tokens, {});
      run.losses.push_back(loss / static_cast<double>(batch.target_tokens));
      const bool good = std::isfinite(model->clip_grad_norm(golden["max_grad_norm"]));
      if (good) optimizer->step(model->logical_tensors(), golden["learning_rate"]);
      model->zero_grad();
      scale.update(!good);
      run.scales.push_back(scale.scale());
    }
    return run;
  }

  nlohmann::json golden, expected;
  models::Batch batch;
  config::Plan plan;
};

TEST_P(Fp16Golden, LossErrorIsComparableToAutocast) {
  const Run run = train(16);
  double difference = 0, size = 0;
  for (size_t i = 0; i < run.losses.size(); ++i) {
    const double exact = expected["losses"][i];
    difference += std::pow(run.losses[i] - exact, 2);
    size += exact * exact;
  }
  EXPECT_LE(std::sqrt(difference / size), kFactor * expected["autocast_error"].get<double>());
}

TEST_P(Fp16Golden, TooHighAScaleDropsLikeGradScalers) {
  const Run run = train(24);
  EXPECT_EQ(run.scales, expected["scales_from_2_24"].get<std::vector<double>>());
  EXPECT_EQ(run.losses[0], run.losses[1]);  // a skipped update changes nothing
}

INSTANTIATE_TEST_SUITE_P(Models, Fp16Golden, ::testing::Values("t5/bf16_v1_0", "t5/bf16_v1_1", "llama/llama"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '/', '_');
                           return name;
                         });

/// No loss scale helps if an activation itself is too large for fp16, which T5's feed-forward can produce.
TEST(Fp16, T5FeedForwardMayExceedTheRange) {
  GoldenCase golden("bf16_v1_0");
  golden.plan.config.mixed_precision = config::MixedPrecision::kFp16;
  const auto comm = dist::solo_comm();
  const auto model = make_model(golden.plan, *comm);
  for (const auto& tensor : model->logical_tensors())
    if (tensor.name.ends_with("wo.weight")) tensor.value.mul_(1e5);
  const models::Batch& batch = golden.batches[0];
  EXPECT_TRUE(std::isfinite(model->update({batch}, batch.target_tokens, {})));
  EXPECT_TRUE(std::isfinite(model->clip_grad_norm(1.0)));
}

}  // namespace
}  // namespace trainer::testing
