// GPT-2 and BERT against values from transformers (tests/golden/make_gpt2.py, make_bert.py).
#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/norm.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "engine/base/errors.h"
#include "engine/dist/dry_memory.h"
#include "models/decoding.h"
#include "tests/models/family_case.h"

namespace trainer::testing {
namespace {

using models::Task;

constexpr double kLogitsTolerance = 1e-5, kGradientTolerance = 1e-4;  // against another implementation in fp32
// Relative to the norm of all gradients: the rounding left where a true gradient is 0, as for a key's bias. (Measured:
// 3e-8.)
constexpr double kRounding = 1e-7;

struct Named {
  const char* name;
  Task task;
};

class Golden : public ::testing::TestWithParam<Named> {
 protected:
  Golden() : golden(GetParam().name, GetParam().task), model(golden.build(golden.config)) {}

  FamilyCase golden;
  std::unique_ptr<models::Model> model;
};

TEST_P(Golden, PackedLogitsMatchEachSampleAlone) {
  const at::NoGradGuard no_grad;
  const models::Batch batch = golden.all();
  const at::Tensor logits = model->logits(batch, {});
  for (int64_t i = 0; i < batch.target->samples(); ++i) {
    const nn::Span span = batch.target->spans[i];
    const at::Tensor expected = golden.tensors.tensor("logits_" + std::to_string(i));
    EXPECT_LT(distance(logits.narrow(0, span.begin, span.length), expected), kLogitsTolerance) << "sample " << i;
  }
}

TEST_P(Golden, LossAndGradientsMatchThePaddedBatch) {
  const models::Batch batch = golden.all();
  ASSERT_EQ(batch.target_tokens, golden.expected["target_tokens"].get<int64_t>());
  const at::Tensor loss = model->loss_sum(batch, {});
  EXPECT_NEAR(loss.item<double>() / golden.expected["loss_sum"].get<double>(), 1.0, kLogitsTolerance);
  torch::autograd::backward({loss / static_cast<double>(batch.target_tokens)}, {});
  double all = 0;
  for (const nn::ParameterPtr& p : model->all_parameters()) all += std::pow(p->value.grad().norm().item<double>(), 2);
  size_t compared = 0;
  for (const nn::ParameterPtr& p : model->all_parameters()) {
    const at::Tensor expected = golden.tensors.tensor("gradient." + p->name);
    const double difference = (p->value.grad() - expected).norm().item<double>();
    EXPECT_LE(difference, kGradientTolerance * expected.norm().item<double>() + kRounding * std::sqrt(all)) << p->name;
    ++compared;
  }
  const auto names = golden.tensors.names();
  EXPECT_EQ(compared, std::count_if(names.begin(), names.end(),
                                    [](const std::string& name) { return name.starts_with("gradient."); }));
}

TEST_P(Golden, ConfigRoundTrips) {
  const std::string written = model->config_json();
  const auto again = golden.build(nlohmann::json::parse(written));
  EXPECT_EQ(again->config_json(), written);
  EXPECT_EQ(again->labels(), model->labels());
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(again->logits(golden.all(), {}).equal(model->logits(golden.all(), {})));
}

/// Sets every dropout rate.
nlohmann::json with_dropout(nlohmann::json config) {
  for (const char* key : {"resid_pdrop", "embd_pdrop", "attn_pdrop", "hidden_dropout_prob",
                          "attention_probs_dropout_prob", "classifier_dropout"})
    config[key] = 0.3;
  return config;
}

TEST_P(Golden, DropoutDependsOnTheSampleNotTheBatch) {
  const at::NoGradGuard no_grad;
  model = golden.build(with_dropout(golden.config));
  nn::Pass pass;
  pass.training = true;
  pass.seed = 5;
  const at::Tensor together = model->logits(golden.all(), pass);
  const at::Tensor apart =
      at::cat({model->logits(golden.samples(0, 1), pass), model->logits(golden.samples(1, 4), pass)});
  EXPECT_LT(distance(apart, together), 1e-6);
  EXPECT_GT(distance(model->logits(golden.all(), {}), together), 0.05);
}

TEST_P(Golden, WorksWithoutValues) {  // Note [Dry run]
  dist::count_dry_memory();
  for (const nn::ParameterPtr& p : model->all_parameters())
    p->value = at::empty(p->shape, at::TensorOptions(at::kFloat).device(at::kMeta)).set_requires_grad(true);
  models::Batch batch = golden.all();
  batch.source_ids = batch.source_ids.to(at::kMeta), batch.labels = batch.labels.to(at::kMeta);
  torch::autograd::backward({model->loss_sum(batch, {})}, {});
  for (const nn::ParameterPtr& p : model->all_parameters()) EXPECT_EQ(p->value.grad().sizes(), p->shape) << p->name;
}

TEST_P(Golden, RefusesASampleBeyondThePositions) {
  const int64_t length = model->max_positions() + 1;
  ASSERT_GT(length, 1);
  models::Batch batch = golden.samples(0, 1);
  auto rows = std::make_shared<nn::Layout>();
  rows->append(length, 0);
  batch.source = rows;
  batch.source_ids = at::empty({length}, at::kLong).fill_(2);
  EXPECT_THROW(model->logits(batch, {}), InputError);
}

std::string test_name(const ::testing::TestParamInfo<Named>& info) {
  std::string name = info.param.name;
  std::replace(name.begin(), name.end(), '/', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Families, Golden,
                         ::testing::Values(Named{"gpt2/causal", Task::kCausalLm},
                                           Named{"gpt2/variant", Task::kCausalLm},
                                           Named{"gpt2/classes", Task::kSequenceClassification},
                                           Named{"bert/named", Task::kSequenceClassification},
                                           Named{"bert/counted", Task::kSequenceClassification}),
                         test_name);

class GreedyDecoding : public Golden {};

TEST_P(GreedyDecoding, GivesTheSameTokens) {
  const at::NoGradGuard no_grad;
  const auto& generation = golden.expected["generation"];
  const int64_t new_tokens = generation["max_new_tokens"];
  models::Decoding decoding(golden.all(), *model, 0, new_tokens);
  nn::Pass pass;
  pass.cache = &decoding.cache();
  decoding.begin(*model, pass);
  for (int64_t step = 0; step < new_tokens; ++step) {
    const at::Tensor tokens = at::argmax(model->decode(decoding.tokens(), pass), -1);
    decoding.advance([&](size_t row) { return tokens.const_data_ptr<int64_t>()[row]; });
    for (size_t i = 0; i < generation["tokens"].size(); ++i) {
      const auto expected = generation["tokens"][i].get<std::vector<int64_t>>();
      if (step >= static_cast<int64_t>(expected.size())) continue;
      EXPECT_EQ(tokens[static_cast<int64_t>(i)].item<int64_t>(), expected[step]) << "sample " << i << ", " << step;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, GreedyDecoding,
                         ::testing::Values(Named{"gpt2/causal", Task::kCausalLm},
                                           Named{"gpt2/variant", Task::kCausalLm}),
                         test_name);

/// FNV-1a of the lines "name [d0,d1]", sorted by name.
std::string digest(const std::map<std::string, std::vector<int64_t>>& shapes) {
  uint64_t value = 0xcbf29ce484222325;
  for (const auto& [name, shape] : shapes)
    for (const char c : fmt::format("{} [{}]\n", name, fmt::join(shape, ",")))
      value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return fmt::format("{:016x}", value);
}

TEST(RealSizes, NamesAndShapesMatchTransformers) {
  for (const auto& [family, task] :
       {std::pair{"gpt2", Task::kCausalLm}, std::pair{"llama", Task::kCausalLm}, std::pair{"gemma", Task::kCausalLm},
        std::pair{"bert", Task::kSequenceClassification}})
    for (const auto& size : nlohmann::json::parse(golden_text(std::string(family) + "/sizes.json"))) {
      const auto model = models::build_model({.config_json = size["config"].dump(), .origin = "sizes", .task = task});
      std::map<std::string, std::vector<int64_t>> shapes;
      int64_t numbers = 0;
      for (const nn::ParameterPtr& p : model->all_parameters()) {
        shapes[p->name] = p->shape;
        for (const std::string& alias : p->aliases) shapes[alias] = p->shape;
        numbers += p->numel();
      }
      EXPECT_EQ(shapes.size(), size["weights"].get<size_t>()) << size["name"];
      EXPECT_EQ(numbers, size["parameters"].get<int64_t>()) << size["name"];
      EXPECT_EQ(digest(shapes), size["digest"].get<std::string>()) << size["name"];
    }
}

std::string problem(const nlohmann::json& config, Task task, const std::vector<std::string>& labels = {}) {
  try {
    models::build_model(
        {.config_json = config.dump(), .origin = "here", .strict = true, .task = task, .labels = labels});
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(FamilyConfigs, UnsupportedValuesAreNamed) {
  constexpr Task kClasses = Task::kSequenceClassification;
  const auto says = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  EXPECT_PRED2(says, problem({{"model_type", "bert"}, {"problem_type", "regression"}}, kClasses), "problem_type");
  EXPECT_PRED2(says, problem({{"model_type", "bert"}, {"num_labels", 1}}, kClasses), "two classes");
  EXPECT_PRED2(says, problem({{"model_type", "bert"}, {"hidden_size", 10}, {"num_attention_heads", 3}}, kClasses),
               "10 and 3");
  EXPECT_PRED2(says, problem({{"model_type", "bert"}, {"is_decoder", true}}, kClasses), "is_decoder");
  EXPECT_PRED2(says, problem({{"model_type", "bert"}, {"position_embedding_type", "relative_key"}}, kClasses),
               "relative_key");
  EXPECT_PRED2(says, problem({{"model_type", "gpt2"}, {"activation_function", "mish"}}, Task::kCausalLm), "gelu_new");
  EXPECT_PRED2(says, problem({{"model_type", "gpt2"}, {"n_heads", 3}}, Task::kCausalLm), "n_head");
  EXPECT_PRED2(says, problem({{"model_type", "mlp"}, {"hidden_sizes", {3, 0}}}, Task::kImageClassification),
               "hidden_sizes");
  EXPECT_EQ(problem({{"model_type", "bert"}}, kClasses), "");
}

TEST(FamilyConfigs, ClassesOfTheDataTakePrecedence) {
  const auto model =
      models::build_model({.config_json = R"({"model_type": "bert", "num_labels": 2, "hidden_size": 12})",
                           .origin = "here",
                           .task = Task::kSequenceClassification,
                           .labels = {"a", "b", "c"}});
  EXPECT_EQ(model->labels(), (std::vector<std::string>{"a", "b", "c"}));
  const auto parameters = model->all_parameters();  // the classifier's weight and bias come last
  EXPECT_EQ(parameters[parameters.size() - 2]->shape, (std::vector<int64_t>{3, 12}));
  EXPECT_EQ(nlohmann::json::parse(model->config_json())["label2id"]["c"], 2);
}

TEST(GPT2, SeparateHeadIsDetectedFromTheWeights) {
  const auto names = [](bool separate, bool tied) {
    const nlohmann::json config = {{"model_type", "gpt2"}, {"tie_word_embeddings", tied}};
    const auto model = models::build_model(
        {.config_json = config.dump(), .origin = "here", .head_is_separate = separate, .task = Task::kCausalLm});
    return model->all_parameters().back()->name;
  };
  EXPECT_EQ(names(false, true), "transformer.ln_f.bias");
  EXPECT_EQ(names(true, true), "lm_head.weight");
  EXPECT_EQ(names(false, false), "lm_head.weight");
}

}  // namespace
}  // namespace trainer::testing
