// training.encoder_cache_mb: the output of an encoder that isn't trained, for samples that come again.
#include <memory>

#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include "engine/evaluation/generate.h"
#include "engine/train/memory_plan.h"
#include "models/encoder_cache.h"
#include "tests/parallel/spread_training.h"
#include "tests/support/golden_case.h"

namespace trainer::testing {
namespace {

constexpr int kEpochs = 3;

config::Plan plan_of(int64_t megabytes, const char* targets = R"(decoder\..*\.(q|v))") {
  Setting setting{model_named("T5"), {"alone"}, /*lora=*/true};
  config::Plan plan = selftest::plan_of(setting);
  config::Config& c = plan.config;
  c.training.dropout = false;
  c.training.encoder_cache_mb = megabytes;
  c.lora->target_modules = {{}, targets};
  return plan;
}

/// A run, and the tokens that its encoder's first block has read.
struct CountedRun : Training {
  CountedRun(config::Plan plan, dist::Comm& comm) : Training(std::move(plan), model_named("T5"), comm) {
    model->model().blocks().front()->wrap(
        [this](const nn::RowsList& in, const nn::Pass& pass, const nn::Module::Forward& next) {
          encoded += in[0].x.size(0);
          return next(in, pass);
        });
  }
  std::vector<double> epoch() {
    encoded = 0;
    nn::Pass pass;
    std::vector<double> losses;
    for (int64_t at = 0; at < samples.size(); at += selftest::kGlobalBatch) {
      const train::UpdateBatch update = batch(at);
      losses.push_back(model->update(update.micro_batches, update.target_tokens, pass));
      model->clip_grad_norm(1);
      optimizer->step(model->logical_tensors(), 5e-3);
      model->zero_grad();
    }
    return losses;
  }
  int64_t encoded = 0;
};

int64_t tokens_of(const data::Samples& samples) {
  int64_t tokens = 0;
  for (int64_t i = 0; i < samples.size(); ++i) tokens += samples.lengths(i).source;
  return tokens;
}

TEST(EncoderCache, EncodesEachSampleOnce) {
  run_ranks(1, [](dist::Comm& comm) {
    CountedRun plain(plan_of(0), comm), kept(plan_of(1), comm);
    for (int i = 0; i < kEpochs; ++i) {
      const std::vector<double> expected = plain.epoch(), found = kept.epoch();
      ASSERT_EQ(found.size(), expected.size());
      // The products of a sample alone may be summed in another order.
      for (size_t j = 0; j < found.size(); ++j) EXPECT_NEAR(found[j], expected[j], 1e-5 * expected[j]);
      EXPECT_GT(plain.encoded, 0);
      EXPECT_EQ(kept.encoded, i == 0 ? tokens_of(kept.samples) : 0);
    }
    // Other ids of the same lengths.
    const models::Batch known = make_batch({{3, 4, 5}}, {{6, 7}}), other = make_batch({{3, 4, 9}}, {{6, 7}});
    EXPECT_NE(kept.model->evaluate(known, {}), kept.model->evaluate(other, {}));
    for (const models::Batch& of : {known, other})
      EXPECT_NEAR(kept.model->evaluate(of, {}), plain.model->evaluate(of, {}), 1e-4);
    kept.encoded = 0;
    evaluation::generate(*kept.model, other, 4, {});
    EXPECT_EQ(kept.encoded, 0);
  });
}

TEST(EncoderCache, HoldsNoMoreThanItMay) {
  auto rows = std::make_shared<nn::Layout>();
  for (const int64_t length : {3, 4, 3}) rows->append(length, 0);
  const at::Tensor ids = at::arange(10, at::kLong);
  int64_t encoded = 0;
  const auto encode = [&](const nn::Rows& of) {
    encoded += of.x.size(0);
    return of.with(of.x.to(at::kFloat).unsqueeze(1).expand({-1, 8}) + of.x.sum());
  };
  models::EncoderCache cache(3 * (32 + 8) + 4 * (32 + 8));  // the first two samples
  const at::Tensor first = cache.rows_of({ids, rows}, encode).x, second = cache.rows_of({ids, rows}, encode).x;
  EXPECT_EQ(encoded, 10 + 3);
  EXPECT_TRUE(at::equal(first, second));
  EXPECT_EQ(first[4][0].item<float>(), 4 + 3 + 4 + 5 + 6);
  auto none = std::make_shared<nn::Layout>();
  EXPECT_EQ(cache.rows_of({ids.narrow(0, 0, 0), none}, encode).x.size(0), 0);
}

TEST(EncoderCache, IsTheSameOnAnyRank) {
  std::vector<double> alone;
  run_ranks(1, [&](dist::Comm& comm) {
    CountedRun run(plan_of(1), comm);
    for (int i = 0; i < kEpochs; ++i) alone = run.epoch();
  });
  config::Plan plan = plan_of(1);
  plan.config.distributed_type = config::DistributedType::kMultiCpu;
  plan.config.num_processes = 2;
  run_ranks(2, [&](dist::Comm& comm) {
    CountedRun run(plan, comm);
    std::vector<double> mine;
    for (int i = 0; i < kEpochs; ++i) mine = run.epoch();
    for (size_t j = 0; j < alone.size(); ++j) EXPECT_NEAR(comm.sum(mine[j]), alone[j], 1e-5 * alone[j]);
  });
}

TEST(EncoderCache, IsOnlyOfAnEncoderThatRepeats) {
  const auto why_not = [](const config::Plan& plan) {
    train::Blueprint blueprint = train::make_blueprint(plan);
    return train::keep_encoder_output(plan, *blueprint.model);
  };
  EXPECT_EQ(why_not(plan_of(1)), "");
  EXPECT_NE(why_not(plan_of(1, R"(.*\.(q|v))")).find("the encoder is trained: encoder.block.0"), std::string::npos);
  config::Plan dropped = plan_of(1);
  dropped.config.training.dropout = true;
  EXPECT_NE(why_not(dropped).find("dropout is on"), std::string::npos);
  config::Plan sharded = plan_of(1);
  sharded.config.distributed_type = config::DistributedType::kFsdp;
  EXPECT_EQ(why_not(sharded), "");  // its warning is the configuration's
  train::Blueprint blueprint = train::make_blueprint(sharded);
  train::keep_encoder_output(sharded, *blueprint.model);
  EXPECT_EQ(blueprint.model->kept_encoder_bytes(), 0);
}

TEST(EncoderCache, IsPlanned) {
  const auto planned = [](int64_t megabytes) {
    const config::Plan plan = plan_of(megabytes);
    train::Blueprint blueprint = train::make_blueprint(plan);
    const train::Workload workload = train::fullest_workload(plan, *blueprint.model);
    return train::plan_memory(plan, std::move(blueprint), workload).training();
  };
  EXPECT_EQ(planned(3) - planned(0), 3 << 20);
}

}  // namespace
}  // namespace trainer::testing
