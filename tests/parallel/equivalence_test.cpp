// One rank = DDP = FSDP, on the same global batches with dropout on: first loss, gradients, ten losses.
#include <cmath>
#include <map>
#include <tuple>

#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/norm.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "data/samples/memory_samples.h"
#include "data/samples/samples.h"
#include "engine/base/files.h"
#include "engine/config/names.h"
#include "engine/parallel/gather.h"
#include "engine/train/batch_stream.h"
#include "engine/weights/export.h"
#include "tests/support/golden_case.h"
#include "tests/support/ranks.h"

namespace trainer::testing {
namespace {

// fp32 against fp32 with another summation order. 1e-6 holds with AVX-512; the AVX2 kernels of matrix products, whose
// summation order depends more on the shape, reach 1.2e-6.
constexpr double kGradientTolerance = 2e-6, kLossesTolerance = 1e-5;
constexpr int64_t kSamples = 37, kUpdates = 10;

data::MemorySamples random_samples() {
  data::MemorySamples samples;
  uint32_t state = 7;
  const auto draw = [&](int32_t low, int32_t high) {
    state = state * 1664525 + 1013904223;
    return low + static_cast<int32_t>((state >> 8) % static_cast<uint32_t>(high - low));
  };
  for (int64_t i = 0; i < kSamples; ++i) {
    std::vector<int32_t> source(draw(1, 24)), target(draw(1, 7));
    for (int32_t& id : source) id = draw(2, 53);
    for (int32_t& id : target) id = draw(2, 53);
    source.push_back(1), target.push_back(1);
    samples.add(std::move(source), std::move(target));
  }
  return samples;
}

config::Config stream_config(int64_t per_device) {
  config::Config config;
  config.seed = 3;
  config.training.per_device_train_batch_size = per_device;
  return config;
}

struct Setting {
  std::string golden = "v1_0";
  config::DistributedType type = config::DistributedType::kNo;
  int ranks = 1;
  bool lora = false;
  bool recompute = false;
  bool bf16 = false;
  int64_t per_device = 100;  // maximum samples per micro-batch
  int64_t global_batch = 8;
  bool share_memory = true;  // between ranks
  config::ShardingStrategy strategy = config::ShardingStrategy::kFullShard;
  config::OptimizerName optim = config::OptimizerName::kAdamWFused;
  int64_t copies = 1;  // replicas of the model (dp_replicate_size)
  config::BackwardPrefetch prefetch = config::BackwardPrefetch::kPre;
  int64_t min_num_params = 0;        // units by size; 0: by class
  std::vector<std::string> classes;  // classes of units
  bool fp16 = false;
};

struct Outcome {
  std::vector<double> losses, norms;
  std::map<std::string, at::Tensor> first_gradients;
};

/// A model initialized from the seed, with the golden case's shape but with dropout.
config::Plan plan_of(const Setting& s) {
  config::Plan plan;
  config::Config& c = plan.config;
  nlohmann::json model = nlohmann::json::parse(read_file(GoldenCase(s.golden).plan.config.model.path + "/config.json"));
  model["dropout_rate"] = 0.2;
  if (s.optim == config::OptimizerName::kAdamW8Bit) model["d_ff"] = 320;  // matrices large enough for 8-bit state
  c.model.config = model.dump();
  c.distributed_type = s.type;
  c.num_processes = s.ranks;
  c.fsdp_config.sharding_strategy = s.strategy;
  c.fsdp_config.backward_prefetch = s.prefetch;
  c.fsdp_config.forward_prefetch = s.prefetch == config::BackwardPrefetch::kPost;
  c.fsdp_config.transformer_layer_cls_to_wrap = s.classes;
  if (s.min_num_params > 0) {
    c.fsdp_config.auto_wrap_policy = config::WrapPolicy::kSizeBased;
    c.fsdp_config.min_num_params = s.min_num_params;
  }
  if (s.copies > 1) c.parallelism_config.emplace().dp_replicate_size = s.copies;
  c.training.gradient_checkpointing = s.recompute;
  c.training.optim = s.optim;
  c.training.ddp_bucket_cap_mb = 0.01;  // several buckets even for a tiny model
  if (s.bf16) c.mixed_precision = config::MixedPrecision::kBf16;
  if (s.fp16) c.mixed_precision = config::MixedPrecision::kFp16;
  if (s.lora) {
    c.lora.emplace();
    c.lora->r = 4;
    c.lora->lora_dropout = 0.2;
    c.lora->init_lora_weights = "false";  // B is not zero, so A has gradients from the start
  }
  return plan;
}

Outcome train(const Setting& s, const data::Samples& samples, dist::Comm& comm) {
  const config::Plan plan = plan_of(s);
  const auto model = make_model(plan, comm);
  const auto optimizer = optim::make_optimizer(plan.config.training, model->logical_tensors(), comm);
  const train::BatchStream batches(samples, stream_config(s.per_device), s.global_batch, comm.rank(), comm.size());
  Outcome outcome;
  if (s.fp16) model->set_loss_scale(1024);
  int64_t consumed = 0;
  for (int64_t i = 0; i < kUpdates; ++i) {
    const train::UpdateBatch batch = batches.next(consumed);
    nn::Pass pass;
    pass.training = true;
    pass.seed = 11;
    const double loss = model->update(batch.micro_batches, batch.target_tokens, pass);
    outcome.losses.push_back(comm.sum(loss) / static_cast<double>(batch.target_tokens));
    if (i == 0)
      for (const auto& tensor : model->logical_tensors())
        if (tensor.trainable) {
          auto grad = tensor;
          grad.value = tensor.grad;
          outcome.first_gradients[tensor.name] = parallel::gather(grad, comm).clone();
        }
    outcome.norms.push_back(model->clip_grad_norm(1.0));
    optimizer->step(model->logical_tensors(), 5e-3);
    model->zero_grad();
    consumed = batch.positions.end;
  }
  return outcome;
}

Outcome outcome_of(const Setting& s) {
  const data::MemorySamples samples = random_samples();
  Outcome outcome;
  run_ranks(
      s.ranks,
      [&](dist::Comm& comm) {
        Outcome mine = train(s, samples, comm);
        if (comm.rank() == 0) outcome = std::move(mine);
      },
      s.share_memory);
  return outcome;
}

void expect_same(const Outcome& found, const Outcome& reference, double gradient_tolerance = kGradientTolerance,
                 double losses_tolerance = kLossesTolerance) {
  EXPECT_NEAR(found.losses[0] / reference.losses[0], 1.0, gradient_tolerance);
  double all = 0;
  for (const auto& [name, gradient] : reference.first_gradients) all += std::pow(gradient.norm().item<double>(), 2);
  ASSERT_EQ(found.first_gradients.size(), reference.first_gradients.size());
  for (const auto& [name, gradient] : reference.first_gradients)
    EXPECT_LE((found.first_gradients.at(name) - gradient).norm().item<double>(),
              gradient_tolerance * gradient.norm().item<double>() + 1e-8 * std::sqrt(all))
        << name;
  for (int64_t i = 0; i < kUpdates; ++i)
    EXPECT_NEAR(found.losses[i] / reference.losses[i], 1.0, losses_tolerance) << "update " << i;
}

using config::DistributedType;
constexpr auto kShardGradOp = config::ShardingStrategy::kShardGradOp;
constexpr auto kHybrid = config::ShardingStrategy::kHybridShard;
constexpr auto kHybridZero2 = config::ShardingStrategy::kHybridShardZero2;

class Strategies : public ::testing::TestWithParam<Setting> {};

TEST_P(Strategies, SameLossesAndGradientsAsOneRank) {
  Setting alone = GetParam();
  alone.type = DistributedType::kNo;
  alone.ranks = 1;
  alone.recompute = false;
  alone.per_device = 100;
  expect_same(outcome_of(GetParam()), outcome_of(alone));
}

std::vector<Setting> all_settings() {
  std::vector<Setting> all;
  for (const char* golden : {"v1_0", "v1_1"})
    for (const bool lora : {false, true}) {
      all.push_back({golden, DistributedType::kNo, 1, lora, false, false, 2, 8});   // accumulation: 4 of 2
      all.push_back({golden, DistributedType::kNo, 1, lora, true, false, 100, 8});  // recomputation
      all.push_back({golden, DistributedType::kMultiCpu, 2, lora, false, false, 100, 8});
      all.push_back({golden, DistributedType::kMultiCpu, 2, lora, false, false, 2, 7});  // uneven, with accumulation
      all.push_back({golden, DistributedType::kMultiCpu, 2, lora, false, false, 100, 8, false});
      all.push_back({golden, DistributedType::kMultiCpu, 3, lora, true, false, 2, 7, false});
      all.push_back({golden, DistributedType::kFsdp, 1, lora, false, false, 100, 8});
      all.push_back({golden, DistributedType::kFsdp, 2, lora, false, false, 100, 8});
      all.push_back({golden, DistributedType::kFsdp, 3, lora, false, false, 100, 7});
      all.push_back({golden, DistributedType::kFsdp, 3, lora, true, false, 2, 8});
      all.push_back({golden, DistributedType::kFsdp, 3, lora, false, false, 100, 2});  // a rank without samples
      all.push_back({golden, DistributedType::kFsdp, 2, lora, false, false, 2, 8, false});
      all.push_back({golden, DistributedType::kFsdp, 3, lora, true, false, 100, 7, false});
      // Gathered from forward to backward: across micro-batches, with recomputation, without shared memory.
      all.push_back({golden, DistributedType::kFsdp, 2, lora, false, false, 2, 8, true, kShardGradOp});
      all.push_back({golden, DistributedType::kFsdp, 3, lora, true, false, 2, 7, true, kShardGradOp});
      all.push_back({golden, DistributedType::kFsdp, 2, lora, false, false, 100, 8, false, kShardGradOp});
    }
  for (const bool lora : {false, true}) {
    const auto add = [&](int ranks, bool recompute, int64_t per_device, int64_t global_batch, bool share) -> Setting& {
      return all.emplace_back(
          Setting{"v1_1", DistributedType::kFsdp, ranks, lora, recompute, false, per_device, global_batch, share});
    };
    all.push_back({"v1_0", DistributedType::kMultiCpu, 3, lora, true, false, 1, 7});
    all.push_back({"v1_0", DistributedType::kMultiCpu, 4, lora, false, false, 100, 3});  // a rank without samples
    add(4, false, 100, 7, false);
    // Replicas of shards.
    add(4, false, 100, 7, true).strategy = kHybrid, all.back().copies = 2;
    add(4, true, 1, 7, false).strategy = kHybrid, all.back().copies = 2;
    add(4, false, 2, 8, false).strategy = kHybridZero2, all.back().copies = 2;
    add(3, false, 100, 7, false).strategy = kHybrid, all.back().copies = 3;
    // Units by size, nested, and gathered at other times.
    add(2, false, 2, 7, false).min_num_params = 300;
    add(3, true, 100, 7, true).min_num_params = 300;
    const std::vector<std::string> nested{"T5Block", "T5Attention", "T5LayerFF", "*.block.1.layer.0.SelfAttention.q"};
    add(2, false, 2, 7, false).classes = nested, all.back().prefetch = config::BackwardPrefetch::kPost;
    add(3, true, 2, 7, false).classes = nested;
    add(2, false, 2, 7, false).classes = nested, all.back().prefetch = config::BackwardPrefetch::kNone,
                        all.back().strategy = kShardGradOp;
  }
  return all;
}

std::string name_of(const Setting& s) {
  const char* type = s.type == DistributedType::kNo ? "One" : s.type == DistributedType::kFsdp ? "Fsdp" : "Ddp";
  return fmt::format("{}_{}{}_{}{}_batch{}of{}{}", s.golden, type, s.ranks, s.lora ? "lora" : "full",
                     s.recompute ? "_recompute" : "", s.global_batch, s.per_device, s.share_memory ? "" : "_sent") +
         (s.strategy == kShardGradOp || s.strategy == kHybridZero2 ? "_grad_op" : "") +
         (s.copies > 1 ? fmt::format("_{}copies", s.copies) : "") + (s.min_num_params > 0 ? "_by_size" : "") +
         (s.classes.empty() ? "" : "_nested");
}

INSTANTIATE_TEST_SUITE_P(All, Strategies, ::testing::ValuesIn(all_settings()),
                         [](const auto& info) { return name_of(info.param); });

/// So a run on one machine equals one on several.
TEST(Strategies, CopiesHaveTheSameBitsWhetherGradientsAreSentOrShared) {
  for (const int ranks : {2, 3, 4}) {
    SCOPED_TRACE(ranks);
    Setting shared;
    shared.type = DistributedType::kMultiCpu;
    shared.ranks = ranks, shared.per_device = 2, shared.global_batch = 13;
    Setting sent = shared;
    sent.share_memory = false;
    const Outcome found = outcome_of(shared), expected = outcome_of(sent);
    EXPECT_EQ(found.losses, expected.losses);
    EXPECT_EQ(found.norms, expected.norms);
    for (const auto& [name, gradient] : expected.first_gradients)
      EXPECT_TRUE(at::equal(found.first_gradients.at(name), gradient)) << name;
  }
}

/// Muon rounds the momentum to bf16, and 8-bit AdamW its moments to codes: where sums of gradients differ in their last
/// bit, an element may by 2^-8, or by the step between two codes.
double losses_tolerance(config::OptimizerName optim) {
  using config::OptimizerName;
  return optim == OptimizerName::kMuon || optim == OptimizerName::kAdamW8Bit ? 1e-3 : kLossesTolerance;
}

TEST(Strategies, AreTheSameWithEveryOptimizer) {
  for (const auto& [optim, optim_name] : config::EnumNames<config::OptimizerName>::values) {
    SCOPED_TRACE(optim_name);
    Setting alone;
    alone.optim = optim;
    const Outcome reference = outcome_of(alone);
    for (const auto& [type, ranks] : {std::pair{DistributedType::kMultiCpu, 2}, std::pair{DistributedType::kFsdp, 2},
                                      std::pair{DistributedType::kFsdp, 3}}) {
      Setting spread = alone;
      spread.type = type, spread.ranks = ranks;
      expect_same(outcome_of(spread), reference, kGradientTolerance, losses_tolerance(optim));
    }
  }
}

/// The addresses of the listed values and gradients.
std::vector<const void*> places_of(const parallel::ParallelModel& model) {
  std::vector<const void*> places;
  for (const parallel::LogicalTensor& tensor : model.logical_tensors())
    for (const at::Tensor& listed : {tensor.value, tensor.grad})
      places.push_back(listed.defined() ? listed.const_data_ptr() : nullptr);
  return places;
}

TEST(Strategies, UpdatesChangeTheListedTensorsInPlace) {
  const data::MemorySamples samples = random_samples();
  for (const auto& [type, ranks] : {std::pair{DistributedType::kNo, 1}, std::pair{DistributedType::kMultiCpu, 2},
                                    std::pair{DistributedType::kFsdp, 2}}) {
    Setting s;
    s.type = type, s.ranks = ranks, s.lora = true;
    run_ranks(ranks, [&](dist::Comm& comm) {
      const config::Plan plan = plan_of(s);
      const auto model = make_model(plan, comm);
      const auto optimizer = optim::make_optimizer(plan.config.training, model->logical_tensors(), comm);
      const std::vector<const void*> before = places_of(*model);
      const train::BatchStream batches(samples, stream_config(2), 8, comm.rank(), comm.size());
      for (const int64_t consumed : {0, 8}) {
        const train::UpdateBatch batch = batches.next(consumed);
        model->update(batch.micro_batches, batch.target_tokens, {});
        for (const nn::ParameterPtr& p : model->model().all_parameters())
          for (const parallel::LogicalTensor& tensor : model->logical_tensors())
            if (tensor.name == p->name && p->value.grad().defined()) {
              EXPECT_EQ(tensor.grad.const_data_ptr(), p->value.grad().const_data_ptr()) << p->name;
            }
        EXPECT_GT(model->clip_grad_norm(0), 0);
        optimizer->step(model->logical_tensors(), 1e-2);
        model->zero_grad();
        EXPECT_EQ(places_of(*model), before);
      }
    });
  }
}

/// Values of an update don't stay when the next one computes no gradient of a weight.
TEST(Strategies, GradientsOfNoSamplesAreZero) {
  const data::MemorySamples samples = random_samples();
  for (const auto& [type, ranks, share] :
       {std::tuple{DistributedType::kNo, 1, true}, std::tuple{DistributedType::kMultiCpu, 2, true},
        std::tuple{DistributedType::kMultiCpu, 2, false}, std::tuple{DistributedType::kFsdp, 2, true},
        std::tuple{DistributedType::kFsdp, 2, false}}) {
    Setting s;
    s.type = type, s.ranks = ranks, s.share_memory = share;
    run_ranks(
        ranks,
        [&](dist::Comm& comm) {
          const auto model = make_model(plan_of(s), comm);
          const train::BatchStream batches(samples, stream_config(8), 8, comm.rank(), comm.size());
          const train::UpdateBatch batch = batches.next(0);
          model->update(batch.micro_batches, batch.target_tokens, {});
          EXPECT_GT(model->clip_grad_norm(0), 0);
          model->zero_grad();
          model->update({make_batch({}, {})}, 1, {});
          EXPECT_EQ(model->clip_grad_norm(0), 0);
        },
        share);
  }
}

TEST(Strategies, DropoutIsOn) {
  Setting s;
  const Outcome with = outcome_of(s);
  const data::MemorySamples samples = random_samples();
  const auto comm = dist::solo_comm();
  const auto model = make_model(plan_of(s), *comm);
  const train::UpdateBatch batch = train::BatchStream(samples, stream_config(100), 8, 0, 1).next(0);
  const double without =
      model->update(batch.micro_batches, batch.target_tokens, {}) / static_cast<double>(batch.target_tokens);
  EXPECT_GT(std::abs(with.losses[0] - without) / without, 1e-3);
}

TEST(Strategies, HalfPrecisionMatchesOneRankWithinRounding) {
  // Gathers and products run in half precision; only the summation order differs between strategies.
  for (const bool fp16 : {false, true}) {
    SCOPED_TRACE(fp16 ? "fp16" : "bf16");
    const double tolerance = fp16 ? 4e-3 : 2e-2;
    Setting alone;
    alone.bf16 = !fp16;
    alone.fp16 = fp16;
    Setting sharded = alone, replicated = alone, accumulated = alone;
    sharded.type = DistributedType::kFsdp;
    replicated.type = DistributedType::kMultiCpu;
    sharded.ranks = replicated.ranks = 2;
    accumulated.per_device = 2;
    const Outcome reference = outcome_of(alone);
    for (const Setting& s : {sharded, replicated, accumulated})
      expect_same(outcome_of(s), reference, tolerance, tolerance);
  }
}

}  // namespace
}  // namespace trainer::testing
