// Pairs under every strategy: one rank = DDP = FSDP = tensor parallel, with dropout on; and the reference.
#include <cmath>
#include <limits>
#include <numeric>

#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>

#include "engine/train/preferences/pairs_with_reference.h"
#include "engine/train/preferences/preferences.h"
#include "engine/train/preferences/reference.h"
#include "engine/train/preferences/reference_file.h"
#include "tests/parallel/spread_training.h"

namespace trainer::testing {
namespace {

constexpr int kUpdates = 6;
constexpr double kRate = 5e-3;

/// Pairs of random tokens, with prompts.
class RandomPairs : public data::Samples {
 public:
  explicit RandomPairs(int64_t vocabulary) {
    uint32_t state = 5;
    const auto draw = [&](int64_t low, int64_t high) {
      state = state * 1664525 + 1013904223;
      return static_cast<int32_t>(low + (state >> 8) % static_cast<uint32_t>(high - low));
    };
    for (int64_t i = 0; i < 21; ++i) {
      data::Sample pair;
      std::vector<int32_t> prompt(static_cast<size_t>(draw(1, 6)));
      for (int32_t& id : prompt) id = draw(2, vocabulary);
      for (int text = 0; text < 2; ++text) {
        pair.parts.push_back(std::ssize(pair.source));
        std::vector<int32_t> reply(static_cast<size_t>(draw(1, 9)));
        for (int32_t& id : reply) id = draw(2, vocabulary);
        pair.source.insert(pair.source.end(), prompt.begin(), prompt.end());
        pair.source.insert(pair.source.end(), reply.begin(), reply.end());
        pair.labels.insert(pair.labels.end(), prompt.size() - 1, -100);
        pair.labels.insert(pair.labels.end(), reply.begin(), reply.end());
        pair.labels.push_back(-100);
      }
      pairs_.push_back(std::move(pair));
    }
  }
  int64_t size() const override { return std::ssize(pairs_); }
  void read(int64_t index, data::Sample& sample) const override { sample = pairs_[static_cast<size_t>(index)]; }
  data::Lengths lengths(int64_t index) const override {
    const data::Sample& pair = pairs_[static_cast<size_t>(index)];
    const int64_t all = std::ssize(pair.source);
    return {all, all, all - std::count(pair.labels.begin(), pair.labels.end(), -100), all - pair.parts[1]};
  }
  data::LabelKind label_kind() const override { return data::LabelKind::kNext; }
  bool are_pairs() const override { return true; }

 private:
  std::vector<data::Sample> pairs_;
};

struct Outcome {
  std::vector<double> losses, margins;
  at::Tensor reference;
};

config::DpoConfig options(config::PreferenceLoss loss) {
  return {.loss_type = loss, .beta = 0.5, .label_smoothing = 0};
}

Outcome train(const Setting& setting, config::PreferenceLoss loss, dist::Comm& comm) {
  config::Plan plan = selftest::plan_of(setting);
  plan.config.dpo = options(loss);
  train::Blueprint blueprint = train::make_blueprint(plan);
  const auto model = train::make_parallel(plan, blueprint, comm);
  const auto optimizer = optim::make_optimizer(plan.config.training, model->logical_tensors(), comm);
  dist::Comm& data = model->mesh().data();
  const auto pairs = std::make_shared<RandomPairs>(setting.model.vocabulary);
  std::vector<int64_t> all(static_cast<size_t>(pairs->size()));
  std::iota(all.begin(), all.end(), 0);
  Outcome outcome;
  outcome.reference = train::reference_log_probs(*model, *pairs, all, {.pairs = 2, .tokens = 0});
  const train::PairsWithReference samples(pairs, outcome.reference);
  const train::BatchStream batches(samples, plan.config, selftest::kGlobalBatch, data.rank(), data.size());
  int64_t consumed = 0;
  for (int i = 0; i < kUpdates; ++i) {
    const train::UpdateBatch batch = batches.next(consumed);
    EXPECT_EQ(batch.target_tokens, batch.positions.size());
    nn::Pass pass;
    pass.training = true;
    pass.seed = 11;
    train::compare_pairs(plan.config, pass);
    const double sum = model->update(batch.micro_batches, batch.target_tokens, pass);
    outcome.losses.push_back(data.sum(sum) / static_cast<double>(batch.target_tokens));
    std::vector<double> rewards = train::reward_sums(pass);
    for (double& reward : rewards) reward = data.sum(reward);
    EXPECT_EQ(rewards.at(3), static_cast<double>(batch.positions.size()));
    outcome.margins.push_back(train::reward_metrics(rewards).at("rewards/margins"));
    model->clip_grad_norm(1.0);
    optimizer->step(model->logical_tensors(), kRate);
    model->zero_grad();
    consumed = batch.positions.end;
  }
  return outcome;
}

Outcome outcome_of(const Setting& setting, config::PreferenceLoss loss) {
  Outcome outcome;
  run_ranks(
      setting.strategy.ranks,
      [&](dist::Comm& comm) {
        Outcome mine = train(setting, loss, comm);
        if (comm.rank() == 0) outcome = std::move(mine);
      },
      setting.strategy.share_memory);
  return outcome;
}

struct Case {
  std::string name;
  Strategy strategy;
  bool lora = false, recompute = false;
  int64_t micro_batches = 1;
  config::PreferenceLoss loss = config::PreferenceLoss::kSigmoid;
};

Strategy fsdp(int ranks, config::ShardingStrategy sharding) {
  return {.name = "FSDP", .ranks = ranks, .type = config::DistributedType::kFsdp, .sharding = sharding};
}

std::vector<Case> cases() {
  using config::DistributedType, config::ShardingStrategy, config::PreferenceLoss;
  const Strategy alone{.name = "one"}, ddp{.name = "DDP", .ranks = 3, .type = DistributedType::kMultiCpu};
  Strategy tensor{.name = "TP", .ranks = 2, .type = DistributedType::kMultiCpu}, sequence, both, threads;
  tensor.degrees.tp_size = 2;
  sequence = both = tensor;
  sequence.degrees.tp_sequence_parallel = true;
  both.type = DistributedType::kFsdp;
  both.ranks = 4;
  both.degrees.dp_shard_size = 2;
  threads = {.name = "threads", .type = DistributedType::kDataParallel, .devices = {"cpu", "cpu"}};
  return {{"Accumulated", alone, false, false, 4},
          {"DataParallel", ddp},
          {"DataParallelIpo", ddp, true, false, 1, PreferenceLoss::kIpo},
          {"Sharded", fsdp(3, ShardingStrategy::kFullShard), false, true, 2},
          {"ShardedGradients", fsdp(2, ShardingStrategy::kShardGradOp), true},
          {"Tensor", tensor},
          {"TensorHinge", tensor, true, false, 2, PreferenceLoss::kHinge},
          {"SequenceParallel", sequence},
          {"ShardedTensor", both, true},
          {"MoreRanksThanPairs", fsdp(9, ShardingStrategy::kFullShard)},
          {"Threads", threads, false, false, 2}};
}

class PreferenceStrategies : public ::testing::TestWithParam<Case> {};

TEST_P(PreferenceStrategies, TrainAsOneRank) {
  const Case& c = GetParam();
  Setting setting{.model = model_named("LLaMA"),
                  .strategy = c.strategy,
                  .lora = c.lora,
                  .micro_batches = c.micro_batches,
                  .recompute = c.recompute};
  const Outcome found = outcome_of(setting, c.loss), expected = outcome_of(setting.reference(), c.loss);
  EXPECT_LT((found.reference - expected.reference).abs().max().item<double>(), 1e-4);
  for (int i = 0; i < kUpdates; ++i) {
    EXPECT_NEAR(found.losses[i], expected.losses[i], 1e-5 * std::max(1.0, std::abs(expected.losses[i]))) << i;
    EXPECT_NEAR(found.margins[i], expected.margins[i], 2e-5) << i;
  }
  EXPECT_GT(std::abs(expected.margins.back()), 1e-3);  // the model has learned something
}

INSTANTIATE_TEST_SUITE_P(All, PreferenceStrategies, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

TEST(ReferenceFile, KeepsEveryBit) {
  const TemporaryFolder folder;
  const at::Tensor some =
      at::tensor({-1.5, std::numeric_limits<double>::quiet_NaN(), -0.1, -2e300}, at::kDouble).view({2, 2});
  EXPECT_TRUE(train::read_reference(folder.path()).empty());
  train::write_reference(folder.path(), {{"train", {"ab", some}}});
  const train::StoredReferences found = train::read_reference(folder.path());
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found.at("train").digest, "ab");
  EXPECT_TRUE(at::equal(found.at("train").log_probs.view(at::kLong), some.view(at::kLong)));
}

TEST(ReferenceFile, TheDigestDependsOnEveryToken) {
  const RandomPairs pairs(50), others(51);
  EXPECT_EQ(train::digest_of(pairs), train::digest_of(RandomPairs(50)));
  EXPECT_NE(train::digest_of(pairs), train::digest_of(others));
}

TEST(Reference, APairWithoutOneIsNeverRead) {
  const auto pairs = std::make_shared<RandomPairs>(50);
  const train::PairsWithReference without(pairs, at::full({pairs->size(), 2}, std::nan(""), at::kDouble));
  data::Sample sample;
  EXPECT_THROW(without.read(0, sample), InternalError);
}

}  // namespace
}  // namespace trainer::testing
