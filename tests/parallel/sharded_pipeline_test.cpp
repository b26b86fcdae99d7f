// FSDP within a pipeline: same results as one rank, and each rank holds only its shard of its stages.
#include <cmath>
#include <limits>

#include "engine/evaluation/generate.h"
#include "engine/parallel/gather.h"
#include "engine/parallel/wrap_policy.h"
#include "tests/parallel/spread_training.h"

namespace trainer::testing {
namespace {

using config::ShardingStrategy;

/// `stages` stages, each sharded over `shards` ranks.
Strategy sharded(int stages, int shards, ShardingStrategy sharding = ShardingStrategy::kFullShard, bool sent = true) {
  Strategy strategy{fmt::format("PP {} x {} {}", stages, shards, sent ? "sent" : "shared"), stages * shards,
                    config::DistributedType::kFsdp, sharding};
  strategy.degrees.pp_size = stages;
  strategy.share_memory = !sent;
  return strategy;
}

constexpr auto kShardGradOp = ShardingStrategy::kShardGradOp;

/// Two stages with two replicas, each sharded over two ranks.
Strategy hybrid(ShardingStrategy sharding) {
  Strategy strategy = sharded(2, 4, sharding);
  strategy.degrees.dp_replicate_size = strategy.degrees.dp_shard_size = 2;
  return strategy;
}

TEST(ShardedPipeline, TrainsLikeOneRank) {
  for (const char* name : {"LLaMA", "GPT-2"})  // untied and tied
    for (const Strategy& strategy : {sharded(2, 2), sharded(2, 2, kShardGradOp),
                                     sharded(2, 2, ShardingStrategy::kFullShard, false), sharded(3, 2, kShardGradOp)})
      for (const auto& [lora, micro_batches, recompute] :
           {std::tuple{false, 4, true}, std::tuple{true, 4, false}, std::tuple{false, 1, false}}) {
        const Setting setting{model_named(name), strategy, lora, micro_batches, recompute};
        SCOPED_TRACE(setting.name());
        expect_as_on_one_rank(setting);
      }
  expect_as_on_one_rank({model_named("GPT-2"), sharded(2, 2, ShardingStrategy::kNoShard), false, 4});
}

TEST(ShardedPipeline, TrainsLikeOneRankWithReplicasOfEachStage) {
  for (const bool lora : {false, true}) {
    expect_as_on_one_rank({model_named("GPT-2"), hybrid(ShardingStrategy::kHybridShard), lora, 4, lora});
    expect_as_on_one_rank({model_named("LLaMA"), hybrid(ShardingStrategy::kHybridShardZero2), lora, 1, !lora});
  }
}

TEST(ShardedPipeline, TrainsLikeOneRankWithTensorParallelism) {
  for (const char* name : {"LLaMA", "GPT-2"})
    for (const bool by_rows : {false, true}) {
      Strategy strategy = sharded(2, 4, by_rows ? kShardGradOp : ShardingStrategy::kFullShard);
      strategy.degrees.tp_size = 2;
      strategy.degrees.tp_sequence_parallel = by_rows;
      const Setting setting{model_named(name), strategy, by_rows, by_rows ? 1 : 4, !by_rows};
      SCOPED_TRACE(setting.name());
      expect_as_on_one_rank(setting);
    }
}

TEST(ShardedPipeline, TrainsLikeOneRankWithInterleavedStages) {
  const TinyModel model = with(model_named("LLaMA"), R"({"num_hidden_layers": 5})");
  for (const ShardingStrategy sharding : {ShardingStrategy::kFullShard, kShardGradOp})
    for (const int64_t micro_batches : {1, 4}) {
      Strategy strategy = sharded(2, 2, sharding);
      strategy.degrees.pp_chunks = 2;
      expect_as_on_one_rank({model, strategy, false, micro_batches, micro_batches == 1});
    }
}

TEST(ShardedPipeline, TrainsLikeOneRankInBf16) {
  for (const ShardingStrategy sharding : {ShardingStrategy::kFullShard, kShardGradOp})
    expect_as_on_one_rank({model_named("LLaMA"), sharded(2, 2, sharding), false, 4, false, true});
}

TEST(ShardedPipeline, ClassifiesLikeOneRank) {
  TinyModel model = model_named("LLaMA");
  model.task = config::Task::kSequenceClassification;
  model = with(model, R"({"id2label": {"0": "a", "1": "b", "2": "c"}, "pad_token_id": 0})");
  expect_as_on_one_rank({model, sharded(2, 2), false, 2});
}

/// The current gradients, gathered.
std::map<std::string, at::Tensor> gradients_of(Training& run) {
  std::map<std::string, at::Tensor> all;
  for (parallel::LogicalTensor tensor : run.model->logical_tensors()) {
    tensor.value = tensor.grad;
    all[tensor.name] = parallel::gather(tensor, run.model->comm()).clone();
  }
  return all;
}

void update(Training& run) {
  const train::UpdateBatch batch = run.batch(0);
  run.model->update(batch.micro_batches, batch.target_tokens, {});
}

/// Units other than blocks: none, modules around and within blocks, embeddings and the head.
TEST(ShardedPipeline, AnyModuleMayBeAUnit) {
  using config::BackwardPrefetch;
  const Setting setting{model_named("GPT-2"), sharded(2, 2), false, 4};
  const auto outcome = [](Training& run) {
    selftest::Outcome found;
    update(run);
    found.gradients = gradients_of(run);
    run.model->zero_grad();
    for (const double loss : run.train(3)) found.losses.push_back(run.model->mesh().data().sum(loss));
    return found;
  };
  selftest::Outcome expected;
  run_ranks(1, [&](dist::Comm& comm) {
    Training run(setting.reference(), comm);
    expected = outcome(run);
  });
  const auto by_class = [](std::vector<std::string> classes, BackwardPrefetch prefetch) {
    config::FsdpConfig options;
    options.transformer_layer_cls_to_wrap = std::move(classes);
    options.backward_prefetch = prefetch;
    options.forward_prefetch = prefetch != BackwardPrefetch::kNone;
    return options;
  };
  config::FsdpConfig none, by_size;
  none.auto_wrap_policy = config::WrapPolicy::kNoWrap;
  by_size.auto_wrap_policy = config::WrapPolicy::kSizeBased;
  by_size.min_num_params = 1000;
  for (config::FsdpConfig options :
       {none, by_size, by_class({"GPT2Block", "GPT2MLP"}, BackwardPrefetch::kPost),
        by_class({"GPT2Model", "GPT2Block", "Embedding", "LayerNorm", "Conv1D"}, BackwardPrefetch::kPre),
        by_class({}, BackwardPrefetch::kNone)})
    for (const ShardingStrategy sharding : {ShardingStrategy::kFullShard, kShardGradOp})
      for (const bool recompute : {false, true}) {
        options.sharding_strategy = sharding;
        run_ranks(
            4,
            [&](dist::Comm& comm) {
              config::Plan plan = selftest::plan_of(setting);
              plan.config.fsdp_config = options;
              plan.config.training.gradient_checkpointing = recompute;
              Training run(std::move(plan), setting.model, comm);
              const auto difference = selftest::difference(outcome(run), expected, false);
              EXPECT_TRUE(difference.fits()) << difference.first_loss << " " << difference.gradients << " "
                                             << difference.worst_gradient << " " << difference.losses;
            },
            false);
      }
}

TEST(ShardedPipeline, CheckpointMovesToOtherSplitsAndBackBitForBit) {
  using config::OptimizerName;
  const TinyModel gpt2 = model_named("GPT-2");
  Strategy shards = sharded(1, 3);
  for (const bool lora : {false, true}) {
    const Setting spread{gpt2, sharded(2, 2), lora, 2};
    expect_checkpoint_moves(spread, spread.reference(), OptimizerName::kAdamWFused);
    expect_checkpoint_moves(spread, spread.reference(), OptimizerName::kAdafactor);
    expect_checkpoint_moves(spread, {gpt2, shards, lora, 2}, OptimizerName::kAdamWFused);
    expect_checkpoint_moves({gpt2, hybrid(ShardingStrategy::kHybridShard), lora, 1}, spread,
                            OptimizerName::kAdamWFused);
  }
}

TEST(ShardedPipeline, EvaluatesAndGeneratesLikeOneRank) {
  const TinyModel gpt2 = model_named("GPT-2");
  std::vector<double> losses;
  std::vector<std::vector<std::vector<int64_t>>> texts;
  for (const Strategy& strategy : {Strategy{"one rank"}, sharded(2, 2), sharded(2, 2, kShardGradOp, false)})
    run_ranks(
        strategy.ranks,
        [&](dist::Comm& comm) {
          Training run({gpt2, strategy}, comm);
          run.train(5);
          // The same samples on every rank.
          config::Config whole = run.plan.config;
          whole.training.per_device_train_batch_size = selftest::kGlobalBatch;
          const models::Batch batch =
              train::BatchStream(run.samples, whole, selftest::kGlobalBatch, 0, 1).next(0).micro_batches[0];
          const double loss = run.model->evaluate(batch, {});
          const auto text = evaluation::generate(*run.model, batch, 6, {});
          if (comm.rank() + 1 < comm.size()) return;
          losses.push_back(loss);
          texts.push_back(text);
        },
        strategy.share_memory);
  for (size_t i = 1; i < losses.size(); ++i) {
    EXPECT_NEAR(losses[i] / losses[0], 1, 1e-5);
    EXPECT_EQ(texts[i], texts[0]);
  }
}

TEST(ShardedPipeline, GradientsAreUnscaledAndClippedOverShardsAndStages) {
  constexpr double kMost = 0.1;
  const Setting setting{model_named("GPT-2"), sharded(2, 2), false, 4};
  std::map<std::string, at::Tensor> expected;
  double norm = 0;
  run_ranks(1, [&](dist::Comm& comm) {
    Training run(setting.reference(), comm);
    update(run);
    norm = run.model->clip_grad_norm(kMost);
    expected = gradients_of(run);
  });
  ASSERT_GT(norm, 2 * kMost);
  run_ranks(
      4,
      [&](dist::Comm& comm) {
        Training run(setting, comm);
        run.model->set_loss_scale(1024);
        update(run);
        EXPECT_NEAR(run.model->clip_grad_norm(kMost) / norm, 1, 1e-6);
        const auto found = gradients_of(run);  // with a total norm of kMost
        for (const auto& [name, value] : expected)
          EXPECT_LE((found.at(name) - value).norm().item<double>(), 1e-6 * kMost) << name;
        // One rank's shard overflows: all ranks must see it.
        run.model->zero_grad();
        update(run);
        const auto tensors = run.model->logical_tensors();
        const auto last = std::find_if(tensors.rbegin(), tensors.rend(), [](const auto& tensor) {
          return tensor.grad.numel() > 0 && tensor.copies == 1;
        });
        ASSERT_NE(last, tensors.rend());
        if (comm.rank() == 3) last->grad[0] = std::numeric_limits<float>::infinity();
        EXPECT_FALSE(std::isfinite(run.model->clip_grad_norm(kMost)));
      },
      false);
}

TEST(ShardedPipeline, RankHoldsOnlyItsShardOfItsStage) {
  const Setting setting{model_named("LLaMA"), sharded(3, 2), false, 2};  // untied, three blocks
  int64_t whole = 0;
  run_ranks(1, [&](dist::Comm& comm) {
    const Training reference(setting.reference(), comm);
    for (const auto& tensor : reference.model->logical_tensors()) whole += tensor.value.numel();
  });
  std::vector<int64_t> held(6), states(6);
  run_ranks(
      6,
      [&](dist::Comm& comm) {
        Training run(setting, comm);
        run.train(1);
        const auto rank = static_cast<size_t>(comm.rank());
        for (const auto& tensor : run.model->logical_tensors()) held[rank] += tensor.value.numel();
        for (const optim::StateTensor& state : run.optimizer->state()) states[rank] += state.value.numel();
        for (const nn::ParameterPtr& p : run.model->model().all_parameters()) {
          if (p->value.defined()) {
            EXPECT_EQ(p->value.storage().nbytes(), 0u) << p->name;  // gathered only while in use
          }
          const bool in_block = p->name.find(".layers.") != std::string::npos;
          const bool mine = p->name.find(fmt::format(".layers.{}.", rank / 2)) != std::string::npos;
          EXPECT_EQ(p->value.defined() && in_block, mine) << p->name;
        }
      },
      false);
  EXPECT_EQ(std::accumulate(held.begin(), held.end(), int64_t{0}), whole);
  for (size_t rank = 0; rank < 6; ++rank) {
    EXPECT_EQ(states[rank], 2 * held[rank]);
    EXPECT_NEAR(static_cast<double>(held[rank]), static_cast<double>(held[rank ^ 1U]), 2 * 64);  // except for padding
  }
}

/// Wraps a communicator and counts the calls on its groups by name.
class Counter : public dist::Comm {
 public:
  using Counts = std::map<std::string, int>;
  Counter(dist::Comm& comm, std::string name, Counts& counts) : comm_(comm), name_(std::move(name)), counts_(counts) {}
  int rank() const override { return comm_.rank(); }
  int size() const override { return comm_.size(); }
  std::unique_ptr<dist::Pending> all_gather(const at::Tensor& full, const at::Tensor& shard) override {
    ++counts_["gather " + name_];
    return comm_.all_gather(full, shard);
  }
  void all_reduce(const at::Tensor& tensor, dist::Reduce op) override {
    ++counts_["reduce " + name_];
    comm_.all_reduce(tensor, op);
  }
  std::unique_ptr<dist::Pending> send(const at::Tensor& t, int to) override { return comm_.send(t, to); }
  std::unique_ptr<dist::Pending> receive(const at::Tensor& t, int from) override { return comm_.receive(t, from); }
  void barrier() override { comm_.barrier(); }
  at::Tensor shared_memory(int64_t) override { return {}; }
  std::unique_ptr<Comm> group(const std::string& name, const std::vector<int>& ranks) override {
    std::unique_ptr<Comm> group = comm_.group(name, ranks);
    auto counter = std::make_unique<Counter>(*group, name, counts_);
    counter->own_ = std::move(group);
    return counter;
  }

 private:
  dist::Comm& comm_;
  std::unique_ptr<Comm> own_;
  std::string name_;
  Counts& counts_;
};

/// The calls of the first and the last rank in an update of four micro-batches; each stage has three blocks.
std::vector<Counter::Counts> counts_of(const Strategy& strategy) {
  std::vector<Counter::Counts> all(2);
  const TinyModel model = with(model_named("LLaMA"), R"({"num_hidden_layers": 6})");
  run_ranks(
      strategy.ranks,
      [&](dist::Comm& comm) {
        Counter::Counts counts;
        Counter counter(comm, "world", counts);
        Training run({model, strategy, false, 4}, counter);
        const train::UpdateBatch update = run.batch(0);
        counts.clear();
        run.model->update(update.micro_batches, update.target_tokens, {});
        if (comm.rank() == 0) all[0] = counts;
        if (comm.rank() + 1 == comm.size()) all[1] = counts;
      },
      false);
  return all;
}

TEST(ShardedPipeline, GathersAndReducesNoMoreThanTheStrategyNeeds) {
  // A block has one buffer, which every backward reduces; the root's buffer is gathered once per update.
  const auto full = counts_of(sharded(2, 2));
  for (const auto& rank : full) {
    EXPECT_EQ(rank.at("gather shard"), 1 + 4 * 2 * 3);
    EXPECT_EQ(rank.at("reduce shard"), 4 * (1 + 3));
  }
  // The first stage has two forwards in flight, so nothing is freed between the first and the last of them; the last
  // stage alternates forward and backward.
  const auto kept = counts_of(sharded(2, 2, kShardGradOp));
  EXPECT_EQ(kept[0].at("gather shard"), 1 + 3);
  EXPECT_EQ(kept[1].at("gather shard"), 1 + 4 * 3);
  for (const auto& rank : kept) EXPECT_EQ(rank.at("reduce shard"), 4 * (1 + 3));
  // Replicas of a stage sum their gradients once per update.
  for (const auto& rank : counts_of(hybrid(ShardingStrategy::kHybridShard)))
    EXPECT_EQ(rank.at("reduce replicate"), 1 + 3);
}

}  // namespace
}  // namespace trainer::testing
