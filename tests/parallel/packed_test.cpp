// Packed frozen weights: the same values on any number of ranks, the same training of adapters on them, and the memory
// that the dry run expects.
#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/norm.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "engine/base/errors.h"
#include "engine/base/round_up.h"
#include "engine/checkpoint/live_tensor.h"
#include "engine/dist/dry_comm.h"
#include "engine/dist/dry_memory.h"
#include "engine/dist/memory.h"
#include "engine/parallel/gather.h"
#include "engine/parallel/parallelize.h"
#include "engine/tensorfile/safetensors_file.h"
#include "engine/train/build.h"
#include "engine/train/parallelism.h"
#include "engine/weights/export.h"
#include "models/nn/four_bit.h"
#include "models/nn/linear.h"
#include "tests/parallel/processes.h"
#include "tests/support/golden_case.h"
#include "tests/support/int8_blocks.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"

namespace trainer::testing {
namespace {

constexpr double kGradientTolerance = 2e-6, kLossesTolerance = 1e-5;
constexpr const char* kLlama =
    R"({"model_type": "llama", "vocab_size": 53, "hidden_size": 128, "intermediate_size": 192, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "attention_bias": true, "initializer_range": 0.1})";
constexpr const char* kGpt2 =
    R"({"model_type": "gpt2", "vocab_size": 53, "n_positions": 32, "n_embd": 64, "n_layer": 2, "n_head": 4,
        "initializer_range": 0.1})";

const nn::PackedFormat& nf4_twice() {
  return nn::four_bits(nn::FourBits::kNf4, true);
}

struct Setting {
  const char* model = kLlama;
  config::DistributedType type = config::DistributedType::kNo;
  int data = 1, tensor = 1;
  bool share_memory = true;
  bool dora = false, recompute = false;
  std::string init = "false";  // B is not zero, so A has gradients from the start
  const nn::PackedFormat* format = &int8_blocks();

  int ranks() const { return data * tensor; }
  Setting alone() const { return {.model = model, .dora = dora, .init = init, .format = format}; }
};

config::Plan plan_of(const Setting& s) {
  config::Plan plan;
  config::Config& c = plan.config;
  c.model.config = s.model;
  c.data.task = config::Task::kCausalLm;
  c.distributed_type = s.type;
  c.num_processes = s.ranks();
  c.parallelism_config.emplace().tp_size = s.tensor;
  c.training.gradient_checkpointing = s.recompute;
  c.lora.emplace().r = 4;
  c.lora->lora_dropout = 0.1;
  c.lora->use_dora = s.dora;
  c.lora->init_lora_weights = s.init;
  c.lora->target_modules.names = s.model == kGpt2 ? std::vector<std::string>{"c_attn", "c_proj"}
                                                  : std::vector<std::string>{"q_proj", "o_proj", "down_proj"};
  return plan;
}

using Prepare = std::function<void(models::Model&)>;

/// Gives weights the dtypes of `source`, but no values.
class NoValues : public parallel::WeightSource {
 public:
  explicit NoValues(const parallel::WeightSource& source) : source_(source) {}
  nn::Storage storage(const nn::Parameter& p) const override { return source_.storage(p); }
  void read(const nn::Parameter&, int64_t, int64_t, const at::Tensor&) const override {}

 private:
  const parallel::WeightSource& source_;
};

std::unique_ptr<parallel::ParallelModel> model_of(const Setting& s, dist::Comm& comm, std::optional<nn::Storage> frozen,
                                                  const Prepare& prepare = {}) {
  const config::Plan plan = plan_of(s);
  train::Blueprint blueprint = train::make_blueprint(plan);
  if (comm.device() == at::kMeta) blueprint.sources.push_back(std::make_unique<NoValues>(blueprint.source()));
  if (prepare) prepare(*blueprint.model);
  parallel::Parallelism how = train::parallelism_of(plan);
  if (frozen && frozen->packed) how.precision.packed = frozen->packed;
  if (frozen && !frozen->packed) how.precision.frozen_as = frozen->dtype;
  const auto mesh = std::make_shared<dist::Mesh>(comm, train::degrees_of(plan));
  return parallel::parallelize(std::move(blueprint.model), mesh, std::move(how), blueprint.source());
}

std::unique_ptr<parallel::ParallelModel> model_of(const Setting& s, dist::Comm& comm) {
  return model_of(s, comm, nn::Storage(*s.format));
}

using Values = std::map<std::string, at::Tensor>;

Values values_of(parallel::ParallelModel& model) {
  const at::NoGradGuard no_grad;
  Values all;
  for (const parallel::LogicalTensor& tensor : model.logical_tensors())
    all[tensor.name] = parallel::gather(tensor, model.comm()).clone();
  return all;
}

void expect_equal(const Values& found, const Values& reference) {
  ASSERT_EQ(found.size(), reference.size());
  for (const auto& [name, values] : reference) EXPECT_TRUE(at::equal(found.at(name), values)) << name;
}

bool is_packed(const parallel::LogicalTensor& tensor) {
  return tensor.storage.packed != nullptr;
}

TEST(Packed, AreTheFrozenMatricesOfLinearLayers) {
  const auto comm = dist::solo_comm();
  const auto model = model_of({}, *comm), plain = model_of({}, *comm, std::nullopt);
  const Values found = values_of(*model), original = values_of(*plain);
  const nn::Storage storage(int8_blocks());
  int64_t packed = 0;
  for (const parallel::LogicalTensor& tensor : model->logical_tensors()) {
    const bool matrix = tensor.name.ends_with("_proj.weight") || tensor.name == "lm_head.weight";
    EXPECT_EQ(is_packed(tensor), matrix) << tensor.name;
    const at::Tensor& values = original.at(tensor.name);
    const at::Tensor expected = matrix ? storage.decode(storage.encode(values), at::kFloat) : values;
    EXPECT_TRUE(at::equal(found.at(tensor.name), expected)) << tensor.name;
    packed += matrix;
  }
  EXPECT_EQ(packed, 2 * 7 + 1);
}

TEST(Packed, ShardsBeginAtBlocksAndDecodeToTheSameValues) {
  for (const char* model : {kLlama, kGpt2}) {
    Setting setting{.model = model};
    const Values alone = values_of(*model_of(setting, *dist::solo_comm()));
    setting.type = config::DistributedType::kFsdp;
    for (const bool shared : {true, false})
      for (setting.data = 1; setting.data <= 4; ++setting.data)
        run_ranks(
            setting.data,
            [&](dist::Comm& comm) {
              const auto sharded = model_of(setting, comm);
              for (const parallel::LogicalTensor& tensor : sharded->logical_tensors()) {
                if (!is_packed(tensor)) continue;
                EXPECT_EQ(tensor.begin % 32, 0) << tensor.name;
                EXPECT_EQ(tensor.end % 32, 0) << tensor.name;
                EXPECT_EQ(tensor.value.numel(), (tensor.end - tensor.begin) / 32 * 36) << tensor.name;
              }
              expect_equal(values_of(*sharded), alone);
            },
            shared);
  }
}

TEST(Packed, SlicesOfTensorParallelRanksAreTheSameValues) {
  for (const char* model : {kLlama, kGpt2}) {
    const Values alone = values_of(*model_of({.model = model}, *dist::solo_comm()));
    Setting split{.model = model, .type = config::DistributedType::kFsdp, .data = 2, .tensor = 2};
    run_ranks(split.ranks(), [&](dist::Comm& comm) { expect_equal(values_of(*model_of(split, comm)), alone); });
  }
}

std::string refusal(const Setting& setting) {
  std::string said;
  run_ranks(setting.ranks(), [&](dist::Comm& comm) {
    try {
      model_of(setting, comm);
    } catch (const ConfigError& error) {
      if (comm.rank() == 0) said = error.what();
    }
  });
  return said;
}

TEST(Packed, LayersThatAreNotWholeBlocksAreRefused) {
  const char* const narrow =
      R"({"model_type": "llama", "vocab_size": 53, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1,
          "num_attention_heads": 4, "num_key_value_heads": 2})";
  const std::string whole = refusal({.model = narrow});
  EXPECT_NE(whole.find("model.layers.0.mlp.down_proj.weight: axis 1 has 48 values"), std::string::npos) << whole;
  EXPECT_NE(whole.find("blocks of 32"), std::string::npos) << whole;
  const char* const split_within_a_block =
      R"({"model_type": "llama", "vocab_size": 53, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 1,
          "num_attention_heads": 4, "num_key_value_heads": 2})";
  EXPECT_EQ(refusal({.model = split_within_a_block}), "");
  const std::string slice =
      refusal({.model = split_within_a_block, .type = config::DistributedType::kMultiCpu, .tensor = 2});
  EXPECT_NE(slice.find("model.layers.0.mlp.down_proj.weight"), std::string::npos) << slice;
  EXPECT_NE(slice.find("values 0 to 47 of axis 1"), std::string::npos) << slice;
  EXPECT_NE(slice.find("blocks of 32"), std::string::npos) << slice;
}

struct Outcome {
  std::vector<double> losses;
  Values gradients;
};

models::Batch batch_of(int64_t rank, int64_t ranks) {
  std::vector<std::vector<int64_t>> texts;
  for (int64_t i = 0; i < 8 / ranks; ++i) {
    std::vector<int64_t> text;
    const int64_t sample = rank * 8 / ranks + i;
    for (int64_t t = 0; t < 3 + sample % 4; ++t) text.push_back((7 * sample + 11 * t * t + 5) % 53);
    texts.push_back(std::move(text));
  }
  models::Batch batch = make_batch(texts, texts, rank * 8 / ranks);
  batch.target = batch.source;
  return batch;
}

Outcome outcome_of(const Setting& s) {
  Outcome outcome;
  run_ranks(
      s.ranks(),
      [&](dist::Comm& comm) {
        const auto model = model_of(s, comm);
        const auto optimizer = optim::make_optimizer(plan_of(s).config.training, model->logical_tensors(), comm);
        dist::Comm& data = model->mesh().data();
        const models::Batch batch = batch_of(data.rank(), data.size());
        nn::Pass pass;
        pass.training = true;
        pass.seed = 11;
        Outcome mine;
        for (int update = 0; update < 6; ++update) {
          mine.losses.push_back(data.sum(model->update({batch}, 36, pass)) / 36);
          for (parallel::LogicalTensor tensor : model->logical_tensors()) {
            if (update > 0 || !tensor.trainable) continue;
            tensor.value = tensor.grad;
            mine.gradients[tensor.name] = parallel::gather(tensor, comm).clone();
          }
          optimizer->step(model->logical_tensors(), 5e-3);
          model->zero_grad();
        }
        if (comm.rank() == 0) outcome = std::move(mine);
      },
      s.share_memory);
  return outcome;
}

void expect_same(const Outcome& found, const Outcome& reference) {
  double all = 0;
  for (const auto& [name, gradient] : reference.gradients) all += std::pow(gradient.norm().item<double>(), 2);
  EXPECT_GT(all, 0);
  ASSERT_EQ(found.gradients.size(), reference.gradients.size());
  for (const auto& [name, gradient] : reference.gradients)
    EXPECT_LE((found.gradients.at(name) - gradient).norm().item<double>(),
              kGradientTolerance * gradient.norm().item<double>() + 1e-8 * std::sqrt(all))
        << name;
  EXPECT_LT(reference.losses.back(), reference.losses.front());
  for (size_t i = 0; i < reference.losses.size(); ++i)
    EXPECT_NEAR(found.losses[i] / reference.losses[i], 1.0, i == 0 ? kGradientTolerance : kLossesTolerance) << i;
}

TEST(Packed, AdaptersTrainTheSameOnAnyRanks) {
  using config::DistributedType;
  for (const char* model : {kLlama, kGpt2}) {
    const Outcome reference = outcome_of({.model = model});
    expect_same(outcome_of({.model = model, .type = DistributedType::kMultiCpu, .data = 2}), reference);
    expect_same(outcome_of({.model = model, .type = DistributedType::kMultiCpu, .tensor = 2}), reference);
    expect_same(outcome_of({.model = model, .type = DistributedType::kFsdp, .data = 2, .tensor = 2}), reference);
    for (const bool shared : {true, false})
      for (const bool recompute : {false, true})
        expect_same(outcome_of({.model = model,
                                .type = DistributedType::kFsdp,
                                .data = 2,
                                .share_memory = shared,
                                .recompute = recompute}),
                    reference);
  }
}

TEST(Packed, DoraAndDecomposedStartsTrainTheSameOnAnyRanks) {
  for (const Setting& alone : {Setting{.dora = true}, Setting{.init = "olora"}, Setting{.dora = true, .init = "pissa"},
                               Setting{.dora = true, .init = "pissa", .format = &nf4_twice()}}) {
    Setting sharded = alone;
    sharded.type = config::DistributedType::kFsdp;
    sharded.data = 2;
    expect_same(outcome_of(sharded), outcome_of(alone));
  }
}

TEST(Packed, ShardsOfDoublyQuantizedWeightsDecodeToTheSameValues) {
  const Values alone = values_of(*model_of({.format = &nf4_twice()}, *dist::solo_comm()));
  for (const bool shared : {true, false})
    for (const int ranks : {2, 3}) {
      const Setting sharded{.type = config::DistributedType::kFsdp, .data = ranks, .format = &nf4_twice()};
      run_ranks(
          ranks, [&](dist::Comm& comm) { expect_equal(values_of(*model_of(sharded, comm)), alone); }, shared);
    }
}

TEST(Packed, AdaptersOfDoublyQuantizedWeightsTrainTheSameOnAnyRanks) {
  const Outcome reference = outcome_of({.format = &nf4_twice()});
  for (const auto type : {config::DistributedType::kMultiCpu, config::DistributedType::kFsdp})
    expect_same(outcome_of({.type = type, .data = 2, .recompute = true, .format = &nf4_twice()}), reference);
}

TEST(Packed, DoraStartsWithTheNormsOfTheDecodedRows) {
  const Values values = values_of(*model_of({.dora = true, .init = "true"}, *dist::solo_comm()));
  const std::string layer = "model.layers.0.self_attn.q_proj.";
  const at::Tensor norms = at::linalg_vector_norm(values.at(layer + "weight"), 2, at::IntArrayRef{1});
  EXPECT_TRUE(at::equal(values.at(layer + "lora_magnitude_vector"), norms));
}

TEST(Packed, ExportsHaveTheDecodedValuesAndCheckpointsOnlyTheAdapters) {
  const Setting setting{.type = config::DistributedType::kFsdp, .data = 2};
  const Values alone = values_of(*model_of(setting.alone(), *dist::solo_comm()));
  const TemporaryFolder folder;
  const auto path = folder.path() / "model.safetensors";
  run_ranks(2, [&](dist::Comm& comm) {
    const auto model = model_of(setting, comm);
    checkpoint::export_weights(*model, path, [](const parallel::LogicalTensor& tensor) { return tensor.name; });
    const auto optimizer = optim::make_optimizer(plan_of(setting).config.training, model->logical_tensors(), comm);
    for (const checkpoint::LiveTensor& live : checkpoint::live_tensors({*model, *optimizer}))
      EXPECT_FALSE(is_packed(live.tensor)) << live.entry();
  });
  const tensorfile::SafetensorsFile file(path);
  for (const auto& [name, values] : alone) EXPECT_TRUE(at::equal(file.tensor(name), values)) << name;
}

TEST(Packed, TheDecodedWeightDoesNotOutliveTheProduct) {
  dist::count_dry_memory();
  constexpr int64_t kWidth = 1024, kDecoded = kWidth * kWidth * 4;
  nn::Linear layer(kWidth, kWidth, false, {});
  const auto on_meta = at::TensorOptions(at::kMeta);
  layer.weight()->storage = int8_blocks();
  layer.weight()->value = at::empty(layer.weight()->storage.shape({kWidth, kWidth}), on_meta.dtype(at::kByte));
  const at::Tensor x = at::empty({2, kWidth}, on_meta.dtype(at::kFloat)).set_requires_grad(true);
  const int64_t before = dist::dry_bytes().all;
  const auto expect_brief = [&](const auto& work) {
    dist::reset_peak_dry_bytes();
    work();
    EXPECT_GE(dist::peak_dry_bytes().all - before, kDecoded);
    EXPECT_LT(dist::dry_bytes().all - before, kDecoded / 8);
  };
  at::Tensor out;
  expect_brief([&] { out = layer({x}, {}).x; });
  expect_brief([&] { torch::autograd::backward({out.sum()}, {}); });
}

/// A gathered block has one buffer of packed bytes, which exists only while the block runs.
TEST(Packed, AGatheredUnitHoldsPackedBytes) {
  for (int ranks = 2; ranks <= 3; ++ranks)
    run_ranks(
        ranks,
        [&](dist::Comm& comm) {
          nn::ParameterPtr weight;
          int64_t values = 0;
          size_t seen = 0;
          const auto watch = [&](models::Model& model) {
            for (const nn::ParameterPtr& p : model.blocks().front()->all_parameters())
              if (p->packable()) values += p->numel();
            model.visit([&](nn::Module& module) {
              auto* const linear = dynamic_cast<nn::Linear*>(&module);
              if (linear == nullptr || !module.path().ends_with("layers.0.self_attn.q_proj")) return;
              weight = linear->weight();
              linear->wrap([&](const nn::RowsList& x, const nn::Pass& pass, const nn::Module::Forward& next) {
                seen = weight->value.storage().nbytes();
                return next(x, pass);
              });
            });
          };
          const Setting setting{.type = config::DistributedType::kFsdp, .data = ranks};
          const auto model = model_of(setting, comm, nn::Storage(int8_blocks()), watch);
          model->evaluate(batch_of(0, 1), {});
          EXPECT_EQ(values, 128 * (128 + 64 + 64 + 128 + 3 * 192));
          EXPECT_EQ(static_cast<int64_t>(seen), round_up((values + ranks - 1) / ranks, 32) * ranks / 32 * 36);
          EXPECT_EQ(weight->value.storage().nbytes(), 0u);
        },
        false);
}

/// Bytes after loading, and the most while a batch is evaluated.
struct Bytes {
  int64_t held = 0, evaluation = 0;
};

Bytes dry_bytes_of(const Setting& s, std::optional<nn::Storage> frozen) {
  dist::count_dry_memory();
  const auto comm = dist::dry_comm(0, s.ranks(), dist::Transport::kGloo);
  const int64_t before = dist::dry_bytes().all;
  const auto model = model_of(s, *comm, frozen);
  Bytes bytes{dist::dry_bytes().all - before, 0};
  models::Batch batch = batch_of(0, 1);
  batch.source_ids = batch.source_ids.to(at::kMeta);
  batch.labels = batch.labels.to(at::kMeta);
  dist::reset_peak_dry_bytes();
  model->evaluate(batch, {});
  bytes.evaluation = dist::peak_dry_bytes().all - before;
  return bytes;
}

Bytes measured_bytes_of(const Setting& s) {
  return in_processes<Bytes>(s.ranks(), false, [&](dist::Comm& comm, const std::string&) {
    dist::count_tensor_memory();
    const int64_t before = dist::tensor_bytes();
    const auto model = model_of(s, comm);
    Bytes bytes{dist::tensor_bytes() - before, 0};
    const models::Batch batch = batch_of(0, 1);
    model->evaluate(batch, {});  // the first one allocates what stays
    dist::reset_peak_tensor_bytes();
    model->evaluate(batch, {});
    bytes.evaluation = dist::peak_tensor_bytes() - before;
    return bytes;
  })[0];
}

TEST(Packed, MemoryIsAsTheDryRunExpects) {
  const Setting whole, sharded{.type = config::DistributedType::kFsdp, .data = 2};
  for (const Setting& setting : {whole, sharded, Setting{.format = &nf4_twice()},
                                 Setting{.type = sharded.type, .data = 2, .format = &nf4_twice()}}) {
    const Bytes dry = dry_bytes_of(setting, nn::Storage(*setting.format)), plain = dry_bytes_of(setting, at::kFloat);
    const Bytes measured = measured_bytes_of(setting);
    EXPECT_NEAR(static_cast<double>(measured.held) / static_cast<double>(dry.held), 1, 0.02);
    EXPECT_NEAR(static_cast<double>(measured.evaluation) / static_cast<double>(dry.evaluation), 1, 0.05);
    EXPECT_LT(dry.held, plain.held / 2);
  }
}

}  // namespace
}  // namespace trainer::testing
