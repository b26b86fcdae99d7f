// Which modules become FSDP units, and that any module may.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <set>

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/norm.h>

#include "engine/base/errors.h"
#include "engine/parallel/gather.h"
#include "engine/parallel/parallelize.h"
#include "engine/parallel/wrap_policy.h"
#include "engine/train/build.h"
#include "engine/weights/export.h"
#include "tests/support/golden_case.h"
#include "tests/support/ranks.h"

namespace trainer::testing {
namespace {

using Paths = std::vector<std::string>;

struct Family {
  const char* name;
  config::Task task;
  const char* config;
};

const Family kT5{
    "t5", config::Task::kSeq2SeqLm,
    R"({"model_type": "t5", "vocab_size": 37, "d_model": 12, "d_kv": 3, "d_ff": 20, "num_layers": 2, "num_heads": 4})"};
const Family kGpt2{"gpt2", config::Task::kCausalLm,
                   R"({"model_type": "gpt2", "vocab_size": 37, "n_positions": 32, "n_embd": 12, "n_layer": 2,
                       "n_head": 3})"};
const Family kLlama{"llama", config::Task::kCausalLm,
                    R"({"model_type": "llama", "vocab_size": 37, "hidden_size": 16, "intermediate_size": 20,
                        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2})"};
const Family kBert{"bert", config::Task::kSequenceClassification,
                   R"({"model_type": "bert", "vocab_size": 37, "hidden_size": 12, "num_hidden_layers": 2,
                       "num_attention_heads": 3, "intermediate_size": 20, "max_position_embeddings": 32})"};
const Family kFamilies[] = {kT5, kGpt2, kLlama, kBert};

config::Plan plan_of(const Family& family, int ranks) {
  config::Plan plan;
  plan.config.model.config = family.config;
  plan.config.data.task = family.task;
  plan.config.distributed_type = config::DistributedType::kFsdp;
  plan.config.num_processes = ranks;
  return plan;
}

train::Blueprint blueprint_of(const config::Plan& plan) {
  return train::make_blueprint(plan, {"no", "yes"});
}

models::Batch batch_of(const Family& family) {
  const std::vector<std::vector<int64_t>> texts{{5, 9, 4, 1}, {7, 3, 1}, {8, 1}};
  if (family.task == config::Task::kSequenceClassification) return make_batch(texts, {{1}, {0}, {1}});
  models::Batch batch = make_batch(texts, texts);
  if (family.task == config::Task::kCausalLm) batch.target = batch.source;
  return batch;
}

/// The classes of a model, except lists and the model itself.
std::set<std::string> classes_of(const Family& family) {
  std::set<std::string> classes;
  const auto model = blueprint_of(plan_of(family, 1)).model;
  model->visit([&](nn::Module& module) { classes.insert(module.class_name()); });
  classes.erase("ModuleList");
  classes.erase(model->class_name());
  return classes;
}

Paths paths(const std::vector<parallel::UnitPlan>& units) {
  Paths all;
  for (const auto& unit : units) all.push_back(unit.module->path());
  return all;
}

Paths paths_for(const Family& family, const config::FsdpConfig& options) {
  const auto model = blueprint_of(plan_of(family, 1)).model;
  return paths(parallel::plan_units(*model, options));
}

config::FsdpConfig named(std::vector<std::string> entries) {
  config::FsdpConfig options;
  options.transformer_layer_cls_to_wrap = std::move(entries);
  return options;
}

config::FsdpConfig by_size(int64_t least) {
  config::FsdpConfig options;
  options.auto_wrap_policy = config::WrapPolicy::kSizeBased;
  options.min_num_params = least;
  return options;
}

TEST(Units, AreTheBlocksByDefault) {
  EXPECT_EQ(paths_for(kLlama, {}), (Paths{"model.layers.0", "model.layers.1", ""}));
  config::FsdpConfig none;
  none.auto_wrap_policy = config::WrapPolicy::kNoWrap;
  EXPECT_EQ(paths_for(kLlama, none), (Paths{""}));
}

TEST(Units, MayBeNestedClasses) {
  EXPECT_EQ(paths_for(kBert, named({"BertLayer", "BertEmbeddings", "BertSelfOutput"})),
            (Paths{"bert.embeddings", "bert.encoder.layer.0.attention.output", "bert.encoder.layer.0",
                   "bert.encoder.layer.1.attention.output", "bert.encoder.layer.1", ""}));
}

TEST(Units, MayBeGivenByPaths) {
  EXPECT_EQ(paths_for(kT5, named({"*.block.1", "encoder.block.0.layer.*"})),
            (Paths{"encoder.block.0.layer.0", "encoder.block.0.layer.1", "encoder.block.1", "decoder.block.1", ""}));
  // neither a list nor a tied embedding
  EXPECT_EQ(paths_for(kT5, named({"encoder.*"})), (Paths{"encoder.final_layer_norm", ""}));
}

TEST(Units, UnknownOnesAreRefusedWithTheKnownOnes) {
  const std::string classes = "T5Block, T5DenseActDense", paths = "blocks are at: decoder.block.*, encoder.block.*";
  for (const auto& [entry, known] : {std::pair{"T5Blok", classes}, std::pair{"encoder.blok.*", paths}}) {
    std::string said;
    try {
      paths_for(kT5, named({"T5Block", entry}));
    } catch (const ConfigError& error) {
      said = error.what();
    }
    EXPECT_NE(said.find(entry), std::string::npos) << said;
    EXPECT_NE(said.find(known), std::string::npos) << said;
  }
}

TEST(Units, SizeExcludesInnerUnits) {
  // The feed-forward has 960 elements, attention 768 and two norms 32: a block without its feed-forward has 800.
  EXPECT_EQ(paths_for(kLlama, by_size(900)), (Paths{"model.layers.0.mlp", "model.layers.1.mlp", "model", ""}));
  EXPECT_EQ(paths_for(kLlama, by_size(1000)), (Paths{"model.layers.0", "model.layers.1", ""}));
  EXPECT_EQ(paths_for(kLlama, by_size(1'000'000)), (Paths{""}));
  EXPECT_EQ(paths_for(kLlama, by_size(0)), (Paths{""}));
}

TEST(Units, KeepATiedWeightAroundAllItsUses) {
  const auto model = blueprint_of(plan_of(kT5, 1)).model;
  for (const auto& options : {by_size(1), named({"T5Stack", "Embedding", "Linear"})}) {
    const auto units = parallel::plan_units(*model, options);
    std::set<std::string> seen;
    for (const auto& unit : units)
      for (const auto& p : unit.parameters) EXPECT_TRUE(seen.insert(p->name).second) << p->name;
    EXPECT_EQ(seen.size(), model->all_parameters().size());
    ASSERT_EQ(units.back().parameters.size(), 1u);
    EXPECT_EQ(units.back().parameters[0]->name, "shared.weight");
  }
}

struct Outcome {
  double loss = 0;
  std::vector<std::pair<std::string, at::Tensor>> gradients;
};

Outcome outcome_of(const config::Plan& plan, const Family& family, dist::Comm& comm) {
  train::Blueprint blueprint = blueprint_of(plan);
  const auto model = train::make_parallel(plan, blueprint, comm);
  nn::Pass pass;
  pass.training = true;
  pass.seed = 5;
  Outcome outcome;
  // Twice: the order of units is known the second time.
  for (int i = 0; i < 2; ++i) {
    model->zero_grad();
    outcome.loss = model->update({batch_of(family)}, comm.size() * 7, pass);
  }
  for (parallel::LogicalTensor tensor : model->logical_tensors()) {
    tensor.value = tensor.grad;
    outcome.gradients.emplace_back(tensor.name, parallel::gather(tensor, comm).clone());
  }
  return outcome;
}

void expect_same(const Outcome& found, const Outcome& reference) {
  EXPECT_NEAR(found.loss / reference.loss, 1.0, 1e-6);
  double all = 0;
  for (const auto& [name, gradient] : reference.gradients) all += std::pow(gradient.norm().item<double>(), 2);
  ASSERT_EQ(found.gradients.size(), reference.gradients.size());
  for (size_t i = 0; i < found.gradients.size(); ++i)
    EXPECT_LE((found.gradients[i].second - reference.gradients[i].second).norm().item<double>(),
              1e-6 * reference.gradients[i].second.norm().item<double>() + 1e-8 * std::sqrt(all))
        << found.gradients[i].first;
}

/// Expects the loss and the gradients of one rank for all options, with ranks that don't share memory.
void expect_all_same(const Family& family, bool recompute, const std::vector<config::FsdpConfig>& all) {
  config::Plan alone = plan_of(family, 1);
  alone.config.distributed_type = config::DistributedType::kNo;
  const Outcome reference = outcome_of(alone, family, *dist::solo_comm());
  run_ranks(
      2,
      [&](dist::Comm& comm) {
        for (const config::FsdpConfig& options : all) {
          config::Plan plan = plan_of(family, 2);
          plan.config.fsdp_config = options;
          plan.config.training.gradient_checkpointing = recompute;
          SCOPED_TRACE(fmt::format("{} {}", family.name, fmt::join(options.transformer_layer_cls_to_wrap, ",")));
          const Outcome found = outcome_of(plan, family, comm);
          if (comm.rank() == 0) expect_same(found, reference);
        }
      },
      false);
}

TEST(Units, MayBeOfAnyClassOfAnyFamily) {
  for (const Family& family : kFamilies) {
    const std::set<std::string> classes = classes_of(family);
    EXPECT_GT(classes.size(), 4u);
    std::vector<config::FsdpConfig> all{named({classes.begin(), classes.end()})};
    for (const std::string& name : classes) all.push_back(named({name}));
    expect_all_same(family, false, all);
  }
}

TEST(Units, WithinRecomputedBlocksGatherAgain) {
  for (const Family& family : kFamilies) {
    const std::set<std::string> classes = classes_of(family);
    std::vector<config::FsdpConfig> all;
    for (const auto prefetch :
         {config::BackwardPrefetch::kPre, config::BackwardPrefetch::kPost, config::BackwardPrefetch::kNone}) {
      all.push_back(named({classes.begin(), classes.end()}));
      all.back().backward_prefetch = prefetch;
      all.back().forward_prefetch = true;
    }
    all.push_back(named({"Linear", "Conv1D"}));
    if (classes.count("Linear") == 0) all.back() = named({"Conv1D"});
    if (classes.count("Conv1D") == 0) all.back() = named({"Linear"});
    expect_all_same(family, true, all);
  }
}

/// Counts the elements read from a source.
class CountedSource : public parallel::WeightSource {
 public:
  explicit CountedSource(const parallel::WeightSource& source) : source_(source) {}
  nn::Storage storage(const nn::Parameter& parameter) const override { return source_.storage(parameter); }
  void read(const nn::Parameter& parameter, int64_t begin, int64_t end, const at::Tensor& out) const override {
    count += end - begin;
    source_.read(parameter, begin, end, out);
  }
  mutable int64_t count = 0;

 private:
  const parallel::WeightSource& source_;
};

// fsdp_cpu_ram_efficient_loading without a broadcast.
TEST(Units, ReadOnlyTheirShardOfTheWeights) {
  constexpr int kRanks = 3;
  std::atomic<int64_t> all{0};
  int64_t numel = 0;
  const train::Blueprint whole = blueprint_of(plan_of(kT5, 1));
  for (const auto& p : whole.model->all_parameters()) numel += p->numel();
  run_ranks(
      kRanks,
      [&](dist::Comm& comm) {
        train::Blueprint blueprint = blueprint_of(plan_of(kT5, kRanks));
        const CountedSource source(blueprint.source());
        const auto mesh = std::make_shared<dist::Mesh>(comm, dist::Degrees{.shard = kRanks});
        parallel::parallelize(std::move(blueprint.model), mesh, {.sharding = config::FsdpConfig{}}, source);
        EXPECT_LT(source.count, numel * 2 / 5);
        all += source.count;
      },
      false);
  EXPECT_EQ(all, numel);
}

}  // namespace
}  // namespace trainer::testing
