// Learning rates, optimizers and their state.
#include <cmath>
#include <fstream>
#include <mutex>

#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>

#include "engine/config/names.h"
#include "engine/optim/parameter_rules.h"
#include "tests/support/golden_case.h"
#include "tests/support/ranks.h"
#include "tests/support/source_dir.h"

namespace trainer::testing {
namespace {

using config::OptimizerName;
using config::Schedule;

TEST(LearningRate, MatchesTransformers) {
  std::ifstream in(source_dir() + "/tests/golden/tables.json");
  const std::map<std::string, Schedule> names{{"linear", Schedule::kLinear},
                                              {"cosine", Schedule::kCosine},
                                              {"constant", Schedule::kConstant},
                                              {"constant_with_warmup", Schedule::kConstantWithWarmup}};
  const auto tables = nlohmann::json::parse(in);
  ASSERT_EQ(tables["schedules"].size(), 16U);
  for (const auto& table : tables["schedules"]) {
    const std::string name = table["lr_scheduler_type"];
    const int64_t warmup = table["warmup_steps"];
    const optim::LearningRate rate(names.at(name), 0.5, static_cast<double>(warmup), table["updates"]);
    int64_t update = 0;
    for (const double factor : table["factors"])
      EXPECT_NEAR(rate.at(update++), 0.5 * factor, 1e-12) << name << ", warmup " << warmup << ", update " << update - 1;
  }
}

/// Converts `params` of DeepSpeed's schedules.
config::ScheduleConfig schedule_config(const nlohmann::json& params) {
  config::ScheduleConfig config;
  config.warmup_min_lr = params.value("warmup_min_lr", config.warmup_min_lr);
  config.warmup_type = params.value("warmup_type", config.warmup_type);
  config.total_num_steps = params.value("total_num_steps", config.total_num_steps);
  config.warmup_min_ratio = params.value("warmup_min_ratio", config.warmup_min_ratio);
  config.cos_min_ratio = params.value("cos_min_ratio", config.cos_min_ratio);
  return config;
}

/// Converts lr_scheduler_kwargs of transformers.
config::ScheduleConfig kwargs_of(const nlohmann::json& json) {
  config::ScheduleConfig more;
  more.num_cycles = json.value("num_cycles", more.num_cycles);
  more.lr_end = json.value("lr_end", more.lr_end);
  more.power = json.value("power", more.power);
  more.timescale = json.value("timescale", more.timescale);
  more.min_lr = json.value("min_lr", more.min_lr);
  more.min_lr_rate = json.value("min_lr_rate", more.min_lr_rate);
  more.warmup_lr_rate = json.value("warmup_lr_rate", more.warmup_lr_rate);
  more.num_decay_steps = json.value("num_decay_steps", more.num_decay_steps);
  more.num_stable_steps = json.value("num_stable_steps", more.num_stable_steps);
  more.warmup_type = json.value("warmup_type", more.warmup_type);
  more.decay_type = json.value("decay_type", more.decay_type);
  more.min_lr_ratio = json.value("min_lr_ratio", more.min_lr_ratio);
  return more;
}

TEST(LearningRate, MatchesTransformersForEverySchedule) {
  std::ifstream in(source_dir() + "/tests/golden/schedules.json");
  const auto golden = nlohmann::json::parse(in);
  ASSERT_EQ(golden.size(), 23U);
  for (const auto& table : golden) {
    const std::string name = table["name"];
    const auto schedule =
        std::find_if(std::begin(config::EnumNames<Schedule>::values), std::end(config::EnumNames<Schedule>::values),
                     [&](const auto& known) { return known.second == name; });
    ASSERT_NE(schedule, std::end(config::EnumNames<Schedule>::values)) << name;
    const optim::LearningRate rate(schedule->first, 2e-3, table["warmup"], table["total"], kwargs_of(table["kwargs"]));
    int64_t update = 0;
    for (const double expected : table["rates"])
      EXPECT_NEAR(rate.at(update++), expected, 1e-12) << name << table["kwargs"] << ", update " << update - 1;
  }
}

TEST(LearningRate, MatchesDeepSpeed) {
  std::ifstream in(source_dir() + "/tests/golden/deepspeed_schedules.json");
  const std::map<std::string, Schedule> names{{"WarmupLR", Schedule::kWarmupLr},
                                              {"WarmupDecayLR", Schedule::kWarmupDecayLr},
                                              {"WarmupCosineLR", Schedule::kWarmupCosineLr}};
  const auto golden = nlohmann::json::parse(in);
  ASSERT_EQ(golden["schedules"].size(), 9U);
  for (const auto& table : golden["schedules"]) {
    const std::string name = table["type"];
    const auto& params = table["params"];
    const double warmup = params["warmup_num_steps"];
    // The file's total takes precedence over the length of the run.
    const optim::LearningRate rate(names.at(name), golden["learning_rate"], warmup, 1'000, schedule_config(params));
    ASSERT_EQ(table["rates"].size(), 60U);
    int64_t update = 0;
    for (const double expected : table["rates"])
      EXPECT_NEAR(rate.at(update++), expected, 1e-12) << name << ", " << params << ", update " << update - 1;
  }
}

TEST(LearningRate, DeepSpeedSchedulesEndWithTheRunByDefault) {
  config::ScheduleConfig told;
  told.total_num_steps = 40;
  for (const Schedule schedule : {Schedule::kWarmupDecayLr, Schedule::kWarmupCosineLr}) {
    const optim::LearningRate by_run(schedule, 1, 5, 40), by_option(schedule, 1, 5, 90, told);
    for (int64_t update = 0; update < 45; ++update) EXPECT_EQ(by_run.at(update), by_option.at(update)) << update;
  }
}

TEST(LearningRate, WarmupBelowOneIsARatioRoundedUp) {
  const optim::LearningRate ratio(Schedule::kLinear, 1, 0.11, 25), steps(Schedule::kLinear, 1, 3, 25);
  for (int64_t update = 0; update < 25; ++update) EXPECT_EQ(ratio.at(update), steps.at(update)) << update;
}

TEST(WeightDecay, SkipsBiasesAndNormsByName) {
  for (const char* name :
       {"encoder.block.0.layer.0.SelfAttention.q.weight", "shared.weight", "lm_head.weight", "decoder.wo.weight",
        "model.normal.weight", "encoder.block.0.layer.0.SelfAttention.q.lora_A.weight"})
    EXPECT_TRUE(optim::decays(name)) << name;
  for (const char* name :
       {"encoder.block.0.layer.0.layer_norm.weight", "encoder.final_layer_norm.weight", "h.0.attn.c_attn.bias",
        "bert.embeddings.LayerNorm.weight", "transformer.h.0.ln_1.weight", "transformer.ln_f.weight",
        "model.layers.3.input_layernorm.weight", "model.norm.weight", "norm.weight", "blocks.1.q_norm.weight",
        "vit.RMSNorm.weight", "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"})
    EXPECT_FALSE(optim::decays(name)) << name;
}

/// Two trained weights of one element, one of which never decays, and a frozen one.
struct TwoWeights {
  std::vector<parallel::LogicalTensor> tensors;

  explicit TwoWeights(double start) {
    for (const char* name : {"a.weight", "a.bias"})
      tensors.push_back(
          {name, {}, {1}, true, 0, 1, true, at::full({1}, start, at::kFloat), at::full({1}, 0.0, at::kFloat)});
    tensors.push_back({"frozen.weight", {}, {1}, false, 0, 1, true, at::full({1}, start, at::kFloat), {}});
  }
  void gradient(double value) {
    for (auto& tensor : tensors)
      if (tensor.trainable) tensor.grad.fill_(value);
  }
  double value(size_t i) const { return tensors[i].value.item<double>(); }
};

TEST(Sgd, MomentumMatchesHandComputation) {
  config::TrainingConfig options;
  options.optim = OptimizerName::kSgd;
  options.sgd_momentum = 0.9;
  options.weight_decay = 0.1;
  TwoWeights weights(1);
  const auto comm = dist::solo_comm();
  const auto optimizer = optim::make_optimizer(options, weights.tensors, *comm);
  weights.gradient(0.5);
  optimizer->step(weights.tensors, 0.1);
  EXPECT_NEAR(weights.value(0), 0.94, 1e-6);  // v = 0.5 + 0.1 * 1
  EXPECT_NEAR(weights.value(1), 0.95, 1e-6);  // no decay
  weights.gradient(0.2);
  optimizer->step(weights.tensors, 0.1);
  EXPECT_NEAR(weights.value(0), 0.8566, 1e-6);  // v = 0.9 * 0.6 + 0.2 + 0.1 * 0.94
  EXPECT_NEAR(weights.value(1), 0.885, 1e-6);   // v = 0.9 * 0.5 + 0.2
  EXPECT_EQ(weights.value(2), 1);
  EXPECT_EQ(optimizer->steps(), 2);
  ASSERT_EQ(optimizer->state().size(), 2U);
  EXPECT_EQ(optimizer->state()[0].kind, "momentum");
  EXPECT_NEAR(optimizer->state()[0].value.item<double>(), 0.834, 1e-6);
}

TEST(Sgd, WithoutMomentumHasNoState) {
  config::TrainingConfig options;
  options.optim = OptimizerName::kSgd;
  TwoWeights weights(1);
  const auto comm = dist::solo_comm();
  const auto optimizer = optim::make_optimizer(options, weights.tensors, *comm);
  EXPECT_TRUE(optimizer->state().empty());
  weights.gradient(-2);
  optimizer->step(weights.tensors, 0.25);
  EXPECT_NEAR(weights.value(0), 1.5, 1e-6);
}

TEST(AdamW, BothKindsMatchHandComputation) {
  for (const auto kind : {OptimizerName::kAdamW, OptimizerName::kAdamWFused}) {
    config::TrainingConfig options;
    options.optim = kind;
    options.weight_decay = 0.1;
    options.adam_beta1 = 0.8, options.adam_beta2 = 0.9, options.adam_epsilon = 1e-3;
    TwoWeights weights(1);
    const auto comm = dist::solo_comm();
    const auto optimizer = optim::make_optimizer(options, weights.tensors, *comm);
    double m = 0, v = 0, decayed = 1, plain = 1;
    int step = 0;
    for (const double g : {0.5, -0.1, 0.02}) {
      weights.gradient(g);
      optimizer->step(weights.tensors, 0.05);
      ++step;
      m = 0.8 * m + 0.2 * g, v = 0.9 * v + 0.1 * g * g;
      const double move = 0.05 * (m / (1 - std::pow(0.8, step))) / (std::sqrt(v / (1 - std::pow(0.9, step))) + 1e-3);
      decayed = decayed * (1 - 0.05 * 0.1) - move, plain -= move;
      EXPECT_NEAR(weights.value(0), decayed, 1e-6) << "step " << step;
      EXPECT_NEAR(weights.value(1), plain, 1e-6) << "step " << step;
    }
    EXPECT_EQ(weights.value(2), 1);
  }
}

TEST(AdamW, StateUnderFsdpCoversTheShardOnly) {
  constexpr int kRanks = 3;
  for (const char* name : {"v1_0", "v1_0/lora_qv"}) {
    config::Plan plan = GoldenCase(name).plan;
    plan.config.distributed_type = config::DistributedType::kFsdp;
    std::mutex mutex;
    std::map<std::string, int64_t> held, whole;  // elements of a tensor's state, summed over ranks
    run_ranks(kRanks, [&](dist::Comm& comm) {
      const auto model = make_model(plan, comm);
      const auto tensors = model->logical_tensors();
      const auto optimizer = optim::make_optimizer(plan.config.training, tensors, comm);
      const std::lock_guard lock(mutex);
      for (const auto& tensor : tensors)
        if (tensor.trainable) whole[tensor.name] = tensor.numel();
      for (const auto& state : optimizer->state()) {
        EXPECT_TRUE(state.kind == "exp_avg" || state.kind == "exp_avg_sq");
        EXPECT_EQ(state.value.scalar_type(), at::kFloat);
        held[state.parameter] += state.value.numel();
      }
    });
    EXPECT_EQ(held.size(), whole.size());
    for (const auto& [parameter, numel] : whole) EXPECT_EQ(held[parameter], 2 * numel) << parameter;
  }
}

}  // namespace
}  // namespace trainer::testing
