// The self-test's own parts: its choice of settings, its measurements, and that it can fail.
#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "engine/selftest/configuration.h"
#include "engine/selftest/matrix.h"
#include "engine/selftest/resume.h"
#include "engine/selftest/run.h"
#include "engine/selftest/saved_run.h"
#include "engine/selftest/table.h"

namespace trainer::selftest {
namespace {

bool meets(const std::vector<Setting>& settings, const std::string& model, bool lora, const std::string& strategy,
           bool recompute) {
  return std::any_of(settings.begin(), settings.end(), [&](const Setting& s) {
    return s.model.name == model && s.strategy.name == strategy && (s.lora == lora || s.recompute == recompute);
  });
}

TEST(Matrix, PairwiseCoversEveryModelWithEveryStrategy) {
  const auto all = full_matrix(4), pairs = pairwise_matrix(4);
  EXPECT_LT(pairs.size() * 4, all.size());
  for (const Setting& s : all)
    EXPECT_TRUE(meets(pairs, s.model.name, true, s.strategy.name, true) ||
                meets(pairs, s.model.name, false, s.strategy.name, false))
        << s.name();
}

TEST(Matrix, OmitsStrategiesThatNeedMoreRanks) {
  for (const Setting& s : full_matrix(2)) EXPECT_LE(s.strategy.ranks, 2);
  EXPECT_EQ(strategies(1).back().ranks, 1);
}

TEST(Matrix, IsDeterministicForASeed) {
  const auto a = random_settings(4, 5, 20), b = random_settings(4, 5, 20), c = random_settings(4, 6, 20);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i].name() + a[i].model.config, b[i].name() + b[i].model.config);
  EXPECT_TRUE(std::any_of(a.begin(), a.end(), [&](const Setting& s) { return s.model.config != c[0].model.config; }));
}

TEST(Configuration, TakesTheStrategyAndNothingOfTheModel) {
  config::Plan user;
  config::Config& c = user.config;
  c.distributed_type = config::DistributedType::kFsdp;
  c.num_processes = 4;
  c.mixed_precision = config::MixedPrecision::kFp16;
  c.fsdp_config.sharding_strategy = config::ShardingStrategy::kShardGradOp;
  c.fsdp_config.transformer_layer_cls_to_wrap = {"SomeBlock"};
  c.fsdp_config.reduce_dtype = "bfloat16";
  c.parallelism_config.emplace().tp_size = 2;
  c.training.gradient_checkpointing = true;
  c.training.gradient_accumulation_steps = 3;
  c.model.path = "/somewhere";
  const auto cases = configuration_cases(user);
  ASSERT_EQ(cases.size(), 6u);  // not BERT, which has no tensor parallelism
  for (const ConfigurationCase& one : cases) {
    const config::Config& tested = one.plan.config;
    EXPECT_EQ(tested.distributed_type, c.distributed_type);
    EXPECT_EQ(tested.num_processes, 4);
    EXPECT_EQ(tested.parallelism_config->tp_size, 2);
    EXPECT_EQ(tested.mixed_precision, c.mixed_precision);
    EXPECT_EQ(tested.fsdp_config.sharding_strategy, c.fsdp_config.sharding_strategy);
    EXPECT_EQ(tested.fsdp_config.reduce_dtype, "bfloat16");
    EXPECT_TRUE(tested.fsdp_config.transformer_layer_cls_to_wrap.empty());
    EXPECT_TRUE(tested.training.gradient_checkpointing);
    EXPECT_EQ(tested.training.per_device_train_batch_size, 2);  // 8 samples over 2 data ranks, in 2 micro-batches
    EXPECT_TRUE(tested.model.path.empty());
    const config::Config& alone = one.reference.config;
    EXPECT_EQ(alone.num_processes, 1);
    EXPECT_EQ(alone.distributed_type, config::DistributedType::kNo);
    EXPECT_EQ(alone.mixed_precision, c.mixed_precision);
    EXPECT_EQ(one.setting.strategy.name, "FSDP SHARD_GRAD_OP, tp_size 2 fp16");
  }
}

TEST(Configuration, ModelsHaveEnoughPartsForLargeSizes) {
  config::Plan user;
  user.config.distributed_type = config::DistributedType::kMultiCpu;
  user.config.num_processes = 12;
  user.config.parallelism_config.emplace().pp_size = 6;
  user.config.parallelism_config->pp_chunks = 2;
  const auto cases = configuration_cases(user);
  ASSERT_EQ(cases.size(), 4u);
  for (const ConfigurationCase& one : cases) {
    const std::string key = one.setting.model.name == "GPT-2" ? "\"n_layer\": 12" : "\"num_hidden_layers\": 12";
    EXPECT_NE(one.plan.config.model.config.find(key), std::string::npos) << one.plan.config.model.config;
  }
}

/// A result that differs must fail the test: the case is trained from another seed than its reference.
TEST(Configuration, ADifferenceIsReported) {
  config::Plan user;
  user.config.num_processes = 1;
  auto cases = configuration_cases(user);
  ASSERT_EQ(cases.size(), 8u);
  cases.resize(2);
  cases[1].plan.config.seed = 5;
  const auto world = dist::solo_comm();
  size_t shown = 0;
  const auto results = test_configuration(cases, *world, [&](const Result&) { ++shown; });
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(shown, 2u);
  EXPECT_TRUE(results[0].difference.fits());
  EXPECT_FALSE(results[1].difference.fits());
}

Outcome outcome_of(double loss, double gradient) {
  return {{1, loss}, {{"big", at::ones({100})}, {"weight", at::full({4}, gradient)}}};
}

TEST(Difference, IsRelativeAndNamesTheGradient) {
  EXPECT_TRUE(difference(outcome_of(2, 3), outcome_of(2, 3), false).fits());
  const Difference d = difference(outcome_of(2, 3.01), outcome_of(2, 3), false);
  EXPECT_FALSE(d.fits());
  EXPECT_EQ(d.worst_gradient, "weight");
  EXPECT_NEAR(d.gradients, 0.01 / 3, 2e-4);
  EXPECT_FALSE(difference(outcome_of(2.001, 3), outcome_of(2, 3), false).fits());
  EXPECT_TRUE(difference(outcome_of(2.001, 3), outcome_of(2, 3), /*bf16=*/true).fits());
  Difference half = difference(outcome_of(2, 3.1), outcome_of(2, 3), /*bf16=*/true);
  EXPECT_FALSE(half.fits());
  half.rounding = half.gradients / 4;
  EXPECT_TRUE(half.fits());
}

TEST(Difference, FailsForAMissingOrNanGradient) {
  Outcome found = outcome_of(2, 3);
  found.gradients.erase("weight");
  EXPECT_FALSE(difference(found, outcome_of(2, 3), false).fits());
  EXPECT_FALSE(difference(outcome_of(std::nan(""), 3), outcome_of(2, 3), false).fits());
  EXPECT_FALSE(difference(outcome_of(2, std::nan("")), outcome_of(2, 3), false).fits());
}

TEST(Table, NamesMismatches) {
  Result good, bad;
  good.setting = bad.setting = pairwise_matrix(1).front();
  bad.difference = difference(outcome_of(3, 3), outcome_of(2, 3), false);
  EXPECT_NE(table({good}).find("All 1 cases"), std::string::npos);
  const std::string text = table({good, bad});
  EXPECT_NE(text.find("DIFFERS  " + bad.setting.name()), std::string::npos);
  EXPECT_NE(text.find("1 of 2 cases"), std::string::npos);
}

TEST(ResumeCases, CoverEveryPairOfStrategies) {
  const auto ways = strategies(4);
  const auto all = resume_cases(4, /*all_models=*/false);
  EXPECT_EQ(all.size(), ways.size() * ways.size());
  std::set<std::string> names;
  for (const ResumeCase& one : all) names.insert(one.name());
  EXPECT_EQ(names.size(), all.size());
  EXPECT_EQ(resume_cases(4, true).size(), 8 * all.size());  // GPT-2, LLaMA, Gemma 2 and 3, full and LoRA
}

TEST(ResumeCases, AreDeterministicForASeed) {
  const auto all = resume_cases(2, false);
  const auto a = drawn(all, 5, 20), b = drawn(all, 5, 20), c = drawn(all, 6, 20);
  const auto same = [](const auto& x, const auto& y) { return x.name() == y.name(); };
  EXPECT_EQ(a.size(), 20u);
  EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), same));
  EXPECT_FALSE(std::equal(a.begin(), a.end(), c.begin(), same));
  EXPECT_EQ(drawn(all, 5, 100'000).size(), all.size());
}

SavedRun saved_run() {
  return {{{"parameter/w", at::ones({3})}, {"exp_avg/w", at::full({3}, 0.5)}},
          "{}",
          {{4, {"a", 0.1, 2.0}}, {5, {"b", 0.2, 1.0}}}};
}

TEST(SavedRun, AnyDifferenceIsNamed) {
  EXPECT_EQ(difference(saved_run(), saved_run(), 0), "");
  SavedRun found = saved_run();
  found.tensors["exp_avg/w"] = at::full({3}, 0.5 + 1e-7);
  EXPECT_EQ(difference(found, saved_run(), 0), "exp_avg/w has different bits");
  found = saved_run();
  found.tensors["parameter/w"] = -at::zeros({3});
  SavedRun zero = saved_run();
  zero.tensors["parameter/w"] = at::zeros({3});
  EXPECT_EQ(difference(found, zero, 0), "parameter/w has different bits");  // the sign of a zero
  found = saved_run();
  found.tensors.erase("exp_avg/w");
  EXPECT_EQ(difference(found, saved_run(), 0), "exp_avg/w is missing");
  found = saved_run();
  found.updates.at(5).order_digest = "c";
  EXPECT_EQ(difference(found, saved_run(), 0), "update 5 has different samples");
  found = saved_run();
  found.updates.erase(4);
  EXPECT_EQ(difference(found, saved_run(), 0), "update 4 is missing");
  found = saved_run();
  found.updates.at(4).learning_rate = 0.3;
  EXPECT_NE(difference(found, saved_run(), 0).find("learning rate"), std::string::npos);
  found = saved_run();
  found.updates.at(5).loss = 1 + 1e-4;
  EXPECT_EQ(difference(found, saved_run(), kLossTolerance), "losses differ by 1.0e-04");
  EXPECT_EQ(difference(found, saved_run(), 1e-3), "");
  found.updates.at(5).loss = std::nan("");
  EXPECT_NE(difference(found, saved_run(), 1e-3), "");
}

TEST(SavedRun, MisplacedValuesAreFarApart) {
  SavedRun there = saved_run(), here = saved_run();
  there.tensors["parameter/w"] = at::arange(3, at::kFloat);
  here.tensors["parameter/w"] = at::arange(3, at::kFloat).flip(0);
  EXPECT_GT(distance(here, there), 0.5);
  EXPECT_EQ(distance(there, there), 0);
}

TEST(ResumeTable, NamesMismatches) {
  const auto cases = resume_cases(1, false);
  const Resumed good{cases.at(0), "", 1e-7, 1}, bad{cases.at(1), "parameter/w has different bits"};
  EXPECT_NE(table(std::vector<Resumed>{good}).find("All 1 cases"), std::string::npos);
  const std::string text = table(std::vector<Resumed>{good, bad});
  EXPECT_NE(text.find("DIFFERS  " + cases.at(1).name() + ": parameter/w has different bits"), std::string::npos);
  EXPECT_NE(text.find("1 of 2 cases"), std::string::npos);
}

}  // namespace
}  // namespace trainer::selftest
