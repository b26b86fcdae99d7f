// LoRA on 4-bit weights against transformers, PEFT and bitsandbytes (tests/golden/make_qlora.py), under every strategy.
#include <cmath>
#include <fstream>
#include <set>

#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/norm.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "engine/adapters/adapter_config.h"
#include "engine/adapters/inject.h"
#include "engine/base/errors.h"
#include "engine/config/plan/adapter_folder.h"
#include "engine/parallel/gather.h"
#include "engine/train/build.h"
#include "engine/train/parallelism.h"
#include "tests/support/golden_case.h"
#include "tests/support/ranks.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_folder.h"

namespace trainer::testing {
namespace {

using config::DistributedType;

constexpr double kTolerance = 1e-5, kLosses = 1e-4;  // against another implementation in fp32

struct QloraCase {
  explicit QloraCase(const std::string& name)
      : folder(source_dir() + "/tests/golden/qlora/" + name), tensors(folder + "/expected.safetensors") {
    std::ifstream in(folder + "/expected.json");
    expected = nlohmann::json::parse(in);
    plan.source = "golden " + name;
    plan.config.num_processes = 1;
    plan.config.model.path = folder;
    plan.config.data.task = name == "t5" ? config::Task::kSeq2SeqLm : config::Task::kCausalLm;
    plan.config.lora = config::read_adapter_config({.path = folder + "/adapter"});
    config::QuantizationConfig& q = plan.config.model.quantization_config;
    const nlohmann::json& given = expected["quantization_config"];
    q.load_in_4bit = true;
    q.bnb_4bit_quant_type = given.value("bnb_4bit_quant_type", q.bnb_4bit_quant_type);
    q.bnb_4bit_use_double_quant = given.value("bnb_4bit_use_double_quant", false);
    plan.config.training.learning_rate = 1e-2;
  }

  /// The samples first, first + step, …
  models::Batch batch(int64_t first = 0, int64_t step = 1) const {
    std::vector<std::vector<int64_t>> sources, labels;
    const auto& samples = expected["samples"];
    for (size_t i = static_cast<size_t>(first); i < samples.size(); i += static_cast<size_t>(step))
      sources.push_back(samples[i]["source"]), labels.push_back(samples[i]["labels"]);
    models::Batch batch = make_batch(sources, labels, first);
    if (plan.config.data.task == config::Task::kCausalLm) batch.target = batch.source;
    return batch;
  }

  std::string folder;
  tensorfile::SafetensorsFile tensors;
  nlohmann::json expected;
  config::Plan plan;
};

class Qlora : public ::testing::TestWithParam<std::string> {
 protected:
  QloraCase golden{GetParam()};
};

TEST_P(Qlora, QuantizesTheLayersThatTransformersQuantizes) {
  const auto comm = dist::solo_comm();
  const auto model = make_model(golden.plan, *comm);
  std::set<std::string> found;
  for (const parallel::LogicalTensor& tensor : model->logical_tensors())
    if (tensor.storage.packed) found.insert(tensor.name.substr(0, tensor.name.rfind('.')));
  const std::set<std::string> expected = golden.expected["quantized"];
  EXPECT_EQ(found, expected);
}

TEST_P(Qlora, LogitsMatch) {
  const auto comm = dist::solo_comm();
  const auto model = make_model(golden.plan, *comm);
  const at::NoGradGuard no_grad;
  const models::Batch batch = golden.batch();
  const at::Tensor logits = model->model().logits(batch, {});
  for (size_t i = 0; i < batch.target->spans.size(); ++i) {
    const nn::Span span = batch.target->spans[i];
    const at::Tensor expected = golden.tensors.tensor("logits_" + std::to_string(i));
    EXPECT_LT(relative_error(logits.narrow(0, span.begin, span.length), expected), kTolerance) << i;
  }
}

/// The losses of ten updates, and the gradients of the first.
struct Found {
  std::vector<double> losses;
  std::map<std::string, at::Tensor> gradients;
};

Found train(const QloraCase& golden, const config::Plan& plan, dist::Comm& comm) {
  const auto model = make_model(plan, comm);
  const auto optimizer = optim::make_optimizer(plan.config.training, model->logical_tensors(), comm);
  const auto names = adapters::adapter_names(model->model(), *plan.config.lora);
  const int64_t tokens = golden.expected["target_tokens"];
  dist::Comm& data = model->mesh().data();
  Found found;
  for (int update = 0; update < 10; ++update) {
    const double loss = model->update({golden.batch(data.rank(), data.size())}, tokens, {});
    found.losses.push_back(data.sum(loss) / static_cast<double>(tokens));
    for (parallel::LogicalTensor tensor : model->logical_tensors()) {
      if (update > 0 || !tensor.trainable) continue;
      tensor.value = tensor.grad;
      found.gradients["gradient." + names.at(tensor.name).front()] = parallel::gather(tensor, comm).clone();
    }
    optimizer->step(model->logical_tensors(), 1e-2);
    model->zero_grad();
  }
  return found;
}

void expect_golden(const Found& found, const QloraCase& golden) {
  const std::vector<double> losses = golden.expected["losses"];
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(found.losses[i] / losses[i], 1, kLosses) << i;
  double all = 0;
  for (const auto& [name, gradient] : found.gradients) all += std::pow(gradient.norm().item<double>(), 2);
  size_t compared = 0;
  for (const std::string& name : golden.tensors.names()) {
    if (!name.starts_with("gradient.")) continue;
    ASSERT_EQ(found.gradients.count(name), 1U) << name;
    const at::Tensor expected = golden.tensors.tensor(name);
    EXPECT_LE((found.gradients.at(name) - expected).norm().item<double>(),
              10 * kTolerance * expected.norm().item<double>() + 1e-8 * std::sqrt(all))
        << name;
    ++compared;
  }
  EXPECT_EQ(compared, found.gradients.size());
}

TEST_P(Qlora, TenLossesAndGradientsMatchUnderEveryStrategy) {
  struct Way {
    DistributedType type;
    int ranks, tensor;
  };
  for (const Way& way : {Way{DistributedType::kNo, 1, 1}, Way{DistributedType::kMultiCpu, 2, 1},
                         Way{DistributedType::kFsdp, 2, 1}, Way{DistributedType::kMultiCpu, 2, 2}}) {
    SCOPED_TRACE(static_cast<int>(way.type) * 10 + way.tensor);
    if (way.tensor > 1 && GetParam() == "t5") continue;  // its d_model is one block, which can't be split
    config::Plan plan = golden.plan;
    plan.config.distributed_type = way.type;
    plan.config.num_processes = way.ranks;
    if (way.tensor > 1) plan.config.parallelism_config.emplace().tp_size = way.tensor;
    run_ranks(way.ranks, [&](dist::Comm& comm) {
      const QloraCase own(GetParam());
      const Found found = train(own, plan, comm);
      if (comm.rank() == 0) expect_golden(found, own);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Qlora, ::testing::Values("llama", "gpt2", "t5"));

TEST(Quantized, SkippedLayersUseTheModelDtype) {
  QloraCase golden("llama");
  config::ModelConfig& options = golden.plan.config.model;
  options.quantization_config.llm_int8_skip_modules = {"lm_head", "k_proj", "model.layers.*.mlp.gate"};
  for (const auto& [name, dtype] : {std::pair{"auto", at::kBFloat16}, std::pair{"float16", at::kHalf}}) {
    options.dtype = name;
    const auto comm = dist::solo_comm();
    const auto model = make_model(golden.plan, *comm);
    for (const parallel::LogicalTensor& tensor : model->logical_tensors()) {
      if (tensor.trainable) continue;
      const bool packed = tensor.name.ends_with("_proj.weight") && tensor.name.find("k_proj") == std::string::npos &&
                          tensor.name.find("gate") == std::string::npos;
      EXPECT_EQ(tensor.storage.packed != nullptr, packed) << tensor.name;
      EXPECT_EQ(tensor.value.scalar_type(), packed ? at::kByte : dtype) << tensor.name;
    }
  }
}

TEST(Quantized, ListThatNamesNoHeadQuantizesIt) {
  QloraCase golden("llama");
  golden.plan.config.model.quantization_config.llm_int8_skip_modules = {"q_proj"};
  const auto comm = dist::solo_comm();
  const auto model = make_model(golden.plan, *comm);
  for (const parallel::LogicalTensor& tensor : model->logical_tensors())
    if (tensor.name == "lm_head.weight") {
      EXPECT_NE(tensor.storage.packed, nullptr);
    }
}

std::string refusal(const config::Plan& plan) {
  try {
    train::make_blueprint(plan);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(Quantized, UnknownSkippedLayerIsRefused) {
  QloraCase golden("llama");
  golden.plan.config.model.quantization_config.llm_int8_skip_modules = {"lm_head", "score"};
  EXPECT_EQ(refusal(golden.plan),
            "model.quantization_config.llm_int8_skip_modules: score matches no layer of LlamaForCausalLM, so it would "
            "be quantized: correct it or leave it out");
}

TEST(Quantized, LayersThatAreNotWholeBlocksAreRefusedTogether) {
  QloraCase golden("llama");
  config::ModelConfig& model = golden.plan.config.model;
  model.path.clear();
  golden.plan.config.lora->path.clear();
  model.config =
      R"({"model_type": "llama", "vocab_size": 53, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
          "num_attention_heads": 4, "num_key_value_heads": 2})";
  EXPECT_EQ(refusal(golden.plan),
            "model.quantization_config.load_in_4bit: 2 layers can't be quantized; add them to llm_int8_skip_modules:\n"
            "  model.layers.0.mlp.down_proj.weight: axis 1 has 96 values, which are not whole blocks of nf4, doubly "
            "quantized (64 values)\n"
            "  model.layers.1.mlp.down_proj.weight: axis 1 has 96 values, which are not whole blocks of nf4, doubly "
            "quantized (64 values)");
  model.quantization_config.llm_int8_skip_modules = {"lm_head", "down_proj"};
  EXPECT_EQ(refusal(golden.plan), "");
  golden.plan.config.distributed_type = DistributedType::kMultiCpu;
  golden.plan.config.num_processes = 2;
  golden.plan.config.parallelism_config.emplace().tp_size = 2;
  EXPECT_EQ(
      refusal(golden.plan),
      "model.quantization_config.load_in_4bit: 2 layers can't be quantized; add them to llm_int8_skip_modules, or "
      "choose a parallelism_config.parallelism_config_tp_size that divides the axis into whole blocks:\n"
      "  model.layers.0.self_attn.o_proj.weight: tensor parallelism gives a rank values 0 to 31 of axis 1, which "
      "are not whole blocks of nf4, doubly quantized (64 values)\n"
      "  model.layers.1.self_attn.o_proj.weight: tensor parallelism gives a rank values 0 to 31 of axis 1, which "
      "are not whole blocks of nf4, doubly quantized (64 values)");
}

TEST(Quantized, FolderThatIsQuantizedAlreadyIsRefused) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "config.json")
      << R"({"model_type": "llama", "quantization_config": {"quant_method": "bitsandbytes"}})";
  config::Plan plan;
  plan.config.model.path = folder.path().string();
  plan.config.data.task = config::Task::kCausalLm;
  try {
    train::make_blueprint(plan);
    FAIL() << "the folder was read";
  } catch (const InputError& error) {
    EXPECT_EQ(std::string(error.what())
                  .find(folder.path().string() + "/config.json: quantization_config: the weights "
                                                 "are quantized already (\"bitsandbytes\")"),
              0U)
        << error.what();
  }
}

/// bf16 weights of a frozen base stay bf16: linear layers never widen them, and mixed_precision bf16 reads them as is.
TEST(Quantized, Bf16BaseIsStoredAsItIs) {
  QloraCase golden("llama");
  golden.plan.config.model.quantization_config = {};
  for (const auto precision : {config::MixedPrecision::kNo, config::MixedPrecision::kBf16})
    for (const char* dtype : {"auto", "bfloat16"}) {
      golden.plan.config.mixed_precision = precision;
      golden.plan.config.model.dtype = dtype;
      const auto comm = dist::solo_comm();
      const auto model = make_model(golden.plan, *comm);
      const tensorfile::SafetensorsFile file(golden.folder + "/model.safetensors");
      for (const parallel::LogicalTensor& tensor : model->logical_tensors()) {
        EXPECT_EQ(tensor.value.scalar_type(), tensor.trainable ? at::kFloat : at::kBFloat16) << tensor.name;
        if (tensor.trainable) continue;
        EXPECT_TRUE(at::equal(tensor.value.view(tensor.shape), file.tensor(tensor.name))) << tensor.name;
      }
    }
}

}  // namespace
}  // namespace trainer::testing
