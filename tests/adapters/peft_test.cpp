// Adapters of every type against values from PEFT (tests/golden/make_peft.py), under every strategy.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>

#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/norm.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "engine/adapters/adapter_config.h"
#include "engine/adapters/inject.h"
#include "engine/dist/dry_comm.h"
#include "engine/dist/dry_memory.h"
#include "engine/optim/optimizer.h"
#include "engine/parallel/gather.h"
#include "engine/weights/export.h"
#include "models/decoding.h"
#include "tests/adapters/peft_case.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"

namespace trainer::testing {
namespace {

using config::DistributedType;

constexpr double kTolerance = 1e-5;  // against another implementation in fp32

bool starts_decomposed(const PeftCase& golden) {
  return golden.options.init_lora_weights == "pissa" || golden.options.init_lora_weights == "olora";
}

class Peft : public ::testing::TestWithParam<std::string> {
 protected:
  Peft() : golden(GetParam()) {}
  PeftCase golden;
};

TEST_P(Peft, LogitsMatchPeft) {
  const auto comm = dist::solo_comm();
  const auto model = golden.make(*comm, DistributedType::kNo, true);
  const at::NoGradGuard no_grad;
  // PiSSA subtracts the initial singular vectors, which LAPACK computes with CPU-dependent rounding.
  const double tolerance = GetParam().starts_with("pissa") ? 2 * kTolerance : kTolerance;
  golden.expect_logits(model->model(), tolerance);
}

/// The name of a gradient in expected.safetensors.
std::string gradient_name(const std::string& parameter, const std::map<std::string, std::vector<std::string>>& names) {
  const size_t at = parameter.find("prompt_e");
  if (at == std::string::npos) return "gradient." + names.at(parameter).front();
  const std::string inside = parameter.substr(at);
  return "gradient." + (inside == "prompt_embeddings" ? "prompt_encoder.embedding.weight" : inside);
}

/// The sign of a singular vector is arbitrary; it only changes the sign of the gradient.
void expect_gradient(const at::Tensor& found, const at::Tensor& expected, double all, bool any_sign,
                     const std::string& name) {
  const at::Tensor a = any_sign ? at::abs(found) : found, b = any_sign ? at::abs(expected) : expected;
  EXPECT_LE((a - b).norm().item<double>(), 10 * kTolerance * b.norm().item<double>() + 1e-8 * all) << name;
}

/// Where the samples of an update are.
enum class Spread { kOverRanks, kOnRankZero };

void check_update(PeftCase& golden, dist::Comm& comm, DistributedType type, bool checkpointed = false,
                  Spread spread = Spread::kOverRanks) {
  const auto model = golden.make(comm, type, true, checkpointed);
  const auto names = adapters::adapter_names(model->model(), golden.options);
  const int64_t tokens = golden.expected["target_tokens"];
  constexpr size_t kNone = 1000;  // beyond the last sample
  const models::Batch mine = spread == Spread::kOverRanks ? golden.batch(comm.rank(), comm.size())
                                                          : golden.batch(comm.rank() == 0 ? 0 : kNone);
  const double loss = model->update({mine}, tokens, {});
  EXPECT_NEAR(comm.sum(loss) / golden.expected["loss_sum"].get<double>(), 1.0, kTolerance);
  double all = 0;
  std::map<std::string, at::Tensor> gradients;
  for (const auto& tensor : model->logical_tensors()) {
    ASSERT_EQ(tensor.grad.defined(), tensor.trainable) << tensor.name;
    if (!tensor.trainable) continue;
    auto grad = tensor;
    grad.value = tensor.grad;
    gradients[tensor.name] = parallel::gather(grad, comm).clone();
    all += std::pow(gradients[tensor.name].norm().item<double>(), 2);
  }
  std::set<std::string> seen;
  for (const auto& [name, gradient] : gradients) {
    const std::string known = gradient_name(name, names);
    seen.insert(known);
    expect_gradient(gradient, golden.tensors.tensor(known), std::sqrt(all), starts_decomposed(golden), name);
  }
  for (const std::string& name : golden.tensors.names())
    if (name.starts_with("gradient.")) {
      EXPECT_EQ(seen.count(name), 1U) << name;
    }
}

TEST_P(Peft, GradientsMatchPeftUnderEveryStrategy) {
  for (const auto type : {DistributedType::kNo, DistributedType::kMultiCpu, DistributedType::kFsdp}) {
    SCOPED_TRACE(static_cast<int>(type));
    run_ranks(type == DistributedType::kNo ? 1 : 2, [&](dist::Comm& comm) {
      PeftCase own(GetParam());
      check_update(own, comm, type);
    });
  }
}

TEST_P(Peft, GradientsMatchPeftIfARankHasNoSamples) {
  for (const auto type : {DistributedType::kMultiCpu, DistributedType::kFsdp}) {
    SCOPED_TRACE(static_cast<int>(type));
    run_ranks(2, [&](dist::Comm& comm) {
      PeftCase own(GetParam());
      check_update(own, comm, type, false, Spread::kOnRankZero);
    });
  }
}

/// Whether PEFT also saves this tensor's values, or the base's, under another name.
bool is_copy(const std::string& name) {
  return name.ends_with(".base_layer.weight") || name.find(".modules_to_save.") != std::string::npos ||
         name.find(".original_module.") != std::string::npos;
}

TEST_P(Peft, SavedFolderMatchesPeft) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "adapter_model.safetensors";
  run_ranks(2, [&](dist::Comm& comm) {
    PeftCase own(GetParam());
    const auto model = own.make(comm, DistributedType::kFsdp, true);
    checkpoint::export_adapter(*model, adapters::adapter_file(model->model(), own.options), path);
    if (comm.rank() == 0)
      std::ofstream(folder.path() / "adapter_config.json")
          << adapters::adapter_config_json(own.options, model->model(), "base");
  });
  const tensorfile::SafetensorsFile ours(path), theirs(golden.folder() + "/adapter_model.safetensors");
  std::set<std::string> left;
  for (const std::string& name : ours.names()) left.insert(name);
  for (const std::string& name : theirs.names()) {
    if (is_copy(name)) continue;
    ASSERT_EQ(left.erase(name), 1U) << name;
    // checked by SavedAdapterFitsTheOriginalWeights
    if (starts_decomposed(golden) && name.find("magnitude") == std::string::npos) continue;
    const at::Tensor expected = theirs.tensor(name);
    ASSERT_EQ(ours.tensor(name).sizes(), expected.sizes()) << name;
    EXPECT_LE((ours.tensor(name) - expected).norm().item<double>(), 1e-6 * expected.norm().item<double>()) << name;
  }
  EXPECT_TRUE(left.empty()) << *left.begin();
  std::ifstream our_config(folder.path() / "adapter_config.json"),
      their_config(golden.folder() + "/adapter_config.json");
  const auto written = nlohmann::json::parse(our_config), known = nlohmann::json::parse(their_config);
  for (const auto& [key, value] : written.items()) {
    ASSERT_TRUE(known.contains(key)) << key;
    // PEFT writes what fits the last layer it adapted, and corrects it for each layer when it loads the folder.
    if (key == "fan_in_fan_out" && GetParam() == "gpt2_head") continue;
    const bool doubled = starts_decomposed(golden) && (key == "r" || key == "lora_alpha");
    const bool free = key == "base_model_name_or_path" || key == "init_lora_weights" || key == "init_ia3_weights";
    if (doubled) {
      EXPECT_EQ(value, 2 * known[key].get<int64_t>()) << key;
    } else if (!free) {
      EXPECT_EQ(value, known[key]) << key;
    }
  }
}

TEST_P(Peft, RunsInADryRun) {
  dist::count_dry_memory();
  const auto comm = dist::dry_comm(0, 2, dist::Transport::kSharedMemory);
  golden.options.lora_dropout = golden.options.vera_dropout = 0.1;
  for (const auto type : {DistributedType::kMultiCpu, DistributedType::kFsdp}) {
    const auto model = golden.make(*comm, type, false);
    models::Batch batch = golden.batch();
    batch.source_ids = batch.source_ids.to(at::kMeta);
    batch.labels = batch.labels.to(at::kMeta);
    nn::Pass pass;
    pass.training = true;
    model->update({batch}, 1, pass);
    for (const auto& tensor : model->logical_tensors()) EXPECT_TRUE(tensor.value.is_meta()) << tensor.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Peft,
                         ::testing::Values("patterns", "dora", "embeddings", "pissa", "olora", "pissa_dora",
                                           "gpt2_bias", "gpt2_lora_only", "gpt2_pissa", "gpt2_classes",
                                           "gpt2_saved_embedding", "gpt2_saved_head", "gpt2_embedding", "gpt2_head",
                                           "bert_bias", "ia3", "gpt2_ia3", "vera", "gpt2_vera", "loha", "qwen3_loha",
                                           "prompt", "gpt2_prompt", "gpt2_classes_prompt", "mlp", "gpt2_lstm", "prefix",
                                           "prefix_network", "gpt2_prefix", "qwen3_prefix", "mistral_prefix",
                                           "bert_prefix", "gemma3_embedding", "gemma_ia3", "gemma2_prompt"),
                         [](const auto& info) { return info.param; });

class TrainedPeft : public Peft {};

TEST_P(TrainedPeft, TenUpdatesOfAdamWHaveTheSameLosses) {
  const auto comm = dist::solo_comm();
  const auto model = golden.make(*comm, DistributedType::kNo, true);
  config::TrainingConfig options;
  options.weight_decay = 0;
  const auto optimizer = optim::make_optimizer(options, model->logical_tensors(), *comm);
  const int64_t tokens = golden.expected["target_tokens"];
  ASSERT_EQ(golden.expected["losses"].size(), 10U);
  for (const auto& expected : golden.expected["losses"]) {
    const double loss = model->update({golden.batch()}, tokens, {}) / static_cast<double>(tokens);
    EXPECT_NEAR(loss / expected.get<double>(), 1.0, kTolerance);
    optimizer->step(model->logical_tensors(), 1e-2);
    model->zero_grad();
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, TrainedPeft, ::testing::Values("vera", "gpt2_vera", "loha", "qwen3_loha"),
                         [](const auto& info) { return info.param; });

TEST(Prefix, GradientsAreTheSameWithActivationCheckpointing) {
  for (const char* name : {"prefix", "gpt2_prefix", "qwen3_prefix", "bert_prefix"})
    for (const auto type : {DistributedType::kNo, DistributedType::kFsdp}) {
      SCOPED_TRACE(name);
      run_ranks(type == DistributedType::kNo ? 1 : 2, [&](dist::Comm& comm) {
        PeftCase golden(name);
        check_update(golden, comm, type, true);
      });
    }
}

/// Token number `at` of every sample.
at::Tensor tokens_at(const at::Tensor& ids, const nn::Layout& layout, int64_t at) {
  std::vector<at::Tensor> tokens;
  for (const nn::Span& span : layout.spans) tokens.push_back(ids.narrow(0, span.begin + at, 1));
  return at::cat(tokens);
}

/// `batch` with the first `count` tokens of every sample.
models::Batch cut(const models::Batch& batch, int64_t count) {
  models::Batch out;
  auto layout = std::make_shared<nn::Layout>();
  std::vector<at::Tensor> ids;
  for (int64_t s = 0; s < batch.source->samples(); ++s) {
    layout->append(count, batch.source->sample_index[s]);
    ids.push_back(batch.source_ids.narrow(0, batch.source->spans[s].begin, count));
  }
  out.source_ids = at::cat(ids);
  out.source = out.target = layout;
  return out;
}

TEST(Prefix, PrecedesTokensWhileDecoding) {
  constexpr int64_t kPrompt = 2;
  for (const char* name : {"prefix", "gpt2_prefix", "qwen3_prefix", "mistral_prefix"}) {
    SCOPED_TRACE(name);
    PeftCase golden(name);
    const auto comm = dist::solo_comm();
    const auto spread = golden.make(*comm, DistributedType::kNo, true);
    models::Model& model = spread->model();
    const at::NoGradGuard no_grad;
    const models::Batch batch = golden.batch(0, 3);
    const at::Tensor taught = model.logits(batch, {});
    const bool causal = golden.causal();
    const nn::Layout& rows = *batch.target;
    int64_t steps = rows.spans[0].length;
    for (const nn::Span& span : rows.spans) steps = std::min(steps, span.length);
    if (causal) steps -= kPrompt;
    ASSERT_GT(steps, 1);
    models::Decoding decoding(causal ? cut(batch, kPrompt) : batch, model, 0, steps + 1);
    nn::Pass pass;
    pass.cache = &decoding.cache();
    decoding.begin(model, pass);
    for (int64_t step = 0; step < steps; ++step) {
      const int64_t at = causal ? step + kPrompt - 1 : step;  // the row that predicts the same token
      const at::Tensor expected = tokens_at(taught, rows, at), found = model.decode(decoding.tokens(), pass);
      EXPECT_LT((found - expected).norm().item<double>(), kTolerance * expected.norm().item<double>()) << step;
      const at::Tensor next = causal ? tokens_at(batch.source_ids, rows, at + 1)
                                     : tokens_at(batch.labels, rows, at).clamp_min(0);  // ignored labels are padding
      decoding.advance([&](size_t row) { return next[static_cast<int64_t>(row)].item<int64_t>(); });
    }
  }
}

/// The parameter whose name ends with `end`.
at::Tensor value_of(parallel::ParallelModel& model, const std::string& end) {
  for (const auto& tensor : model.logical_tensors())
    if (tensor.name.ends_with(end)) return tensor.value.view(tensor.shape);
  throw std::runtime_error(end);
}

TEST(Decomposed, SavedAdapterFitsTheOriginalWeights) {
  for (const char* name : {"pissa", "olora", "gpt2_pissa"}) {
    PeftCase golden(name);
    const auto comm = dist::solo_comm();
    const auto model = golden.make(*comm, DistributedType::kNo, false);
    const std::string layer = golden.causal() ? "h.0.attn.c_attn." : "decoder.block.1.layer.1.EncDecAttention.v.";
    const at::Tensor a = value_of(*model, layer + "lora_A.weight"), b = value_of(*model, layer + "lora_B.weight");
    const at::Tensor start = at::mm(b, a);
    a.mul_(1.5);  // "training"
    const TemporaryFolder folder;
    const auto path = folder.path() / "adapter_model.safetensors";
    checkpoint::export_adapter(*model, adapters::adapter_file(model->model(), golden.options), path);
    const tensorfile::SafetensorsFile file(path);
    const std::string in_file = golden.causal() ? "base_model.model.transformer." + layer : "base_model.model." + layer;
    const at::Tensor saved = at::mm(file.tensor(in_file + "lora_B.weight"), file.tensor(in_file + "lora_A.weight"));
    EXPECT_EQ(file.tensor(in_file + "lora_A.weight").size(0), 2 * golden.options.r);
    EXPECT_LT((saved - 0.5 * start).norm().item<double>(), 1e-5 * start.norm().item<double>()) << name;
  }
}

TEST(Vera, DrawsTheSameProjectionsAsPeft) {
  PeftCase golden("vera");
  const auto comm = dist::solo_comm();
  const auto model = golden.make(*comm, DistributedType::kNo, false);
  const tensorfile::SafetensorsFile theirs(golden.folder() + "/adapter_model.safetensors");
  for (const char* name : {"vera_A", "vera_B"})
    EXPECT_TRUE(at::equal(value_of(*model, name), theirs.tensor(std::string("base_model.") + name))) << name;
}

TEST(Vera, ProjectionsExistOnceAndAreFrozen) {
  for (const auto type : {DistributedType::kNo, DistributedType::kFsdp})
    run_ranks(type == DistributedType::kNo ? 1 : 2, [&](dist::Comm& comm) {
      PeftCase golden("vera");
      const auto model = golden.make(comm, type, true);
      int count = 0;
      for (const auto& tensor : model->logical_tensors()) {
        if (tensor.name.find(".vera_") == std::string::npos) continue;
        const bool projection = tensor.name.ends_with("vera_A") || tensor.name.ends_with("vera_B");
        EXPECT_EQ(tensor.trainable, !projection) << tensor.name;
        count += projection;
      }
      EXPECT_EQ(count, 2);
    });
}

TEST(Vera, SavesTheProjectionsOnlyIfAsked) {
  for (const bool asked : {false, true}) {
    PeftCase golden("vera");
    golden.options.save_projection = asked;
    const auto comm = dist::solo_comm();
    const auto model = golden.make(*comm, DistributedType::kNo, true);
    const TemporaryFolder folder;
    checkpoint::export_adapter(*model, adapters::adapter_file(model->model(), golden.options),
                               folder.path() / "adapter_model.safetensors");
    const tensorfile::SafetensorsFile file(folder.path() / "adapter_model.safetensors");
    EXPECT_EQ(file.find("base_model.vera_A") != nullptr, asked);
    EXPECT_EQ(file.find("base_model.vera_B") != nullptr, asked);
  }
}

TEST(Dropout, IsTheSameUnderEveryStrategy) {
  for (const char* name : {"dora", "pissa_dora", "gpt2_bias", "gpt2_pissa", "vera"}) {
    SCOPED_TRACE(name);
    std::map<std::string, at::Tensor> alone;
    for (const auto type : {DistributedType::kNo, DistributedType::kMultiCpu, DistributedType::kFsdp})
      run_ranks(type == DistributedType::kNo ? 1 : 2, [&](dist::Comm& comm) {
        PeftCase golden(name);
        golden.options.lora_dropout = golden.options.vera_dropout = 0.3;
        const auto model = golden.make(comm, type, true);
        nn::Pass pass;
        pass.training = true;
        pass.seed = 4;
        model->update({golden.batch(comm.rank(), comm.size())}, 10, pass);
        for (const auto& tensor : model->logical_tensors()) {
          if (!tensor.trainable) continue;
          auto grad = tensor;
          grad.value = tensor.grad;
          const at::Tensor found = parallel::gather(grad, comm).clone();
          if (type == DistributedType::kNo)
            alone[tensor.name] = found;
          else
            EXPECT_LE((found - alone.at(tensor.name)).norm().item<double>(), 4e-6 * found.norm().item<double>() + 1e-8)
                << tensor.name;
        }
      });
  }
}

}  // namespace
}  // namespace trainer::testing
