// LLaMA, Mistral, Qwen2, Qwen3 and Gemma against values from transformers (tests/golden/make_llama.py, make_gemma.py):
// this implementation packs several samples into one batch, transformers runs each alone.
#include <cmath>

#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/norm.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "engine/dist/dry_memory.h"
#include "models/decoding.h"
#include "tests/models/family_case.h"

namespace trainer::testing {
namespace {

using models::Task;

constexpr double kTolerance = 1e-5;  // against another implementation in fp32

/// transformers' results for a model and its batch. A tensor is stored whole ("logits_0", "gradient.<weight>") or as a
/// sketch ("sketch.logits_0").
struct Expected {
  const nlohmann::json& scalars;
  const tensorfile::SafetensorsFile& tensors;
  std::string prefix;  // prefix of the tensors' names
};

/// As computed by make_llama.py: the norm, then projections on cosine waves, over the flat tensor in fp64.
std::vector<double> sketch(const at::Tensor& tensor, int64_t size) {
  const at::Tensor flat = tensor.detach().to(at::kDouble).contiguous().view(-1);
  const auto* const values = flat.const_data_ptr<double>();
  std::vector<double> found{flat.norm().item<double>()};
  for (int64_t k = 0; k + 1 < size; ++k) {
    double sum = 0;
    for (int64_t i = 0; i < flat.numel(); ++i)
      sum += values[i] * std::cos(static_cast<double>(i + 1) * (0.37 + 0.61 * static_cast<double>(k)));
    found.push_back(sum);
  }
  return found;
}

/// `floor`: the rounding left where a true gradient is 0.
void expect_tensor(const Expected& expected, const std::string& name, const at::Tensor& found, double floor) {
  if (expected.tensors.find(expected.prefix + name) != nullptr) {
    const at::Tensor wanted = expected.tensors.tensor(expected.prefix + name).to(at::kDouble);
    ASSERT_EQ(found.sizes(), wanted.sizes()) << name;
    const double error = (found.to(at::kDouble) - wanted).norm().item<double>();
    EXPECT_LE(error, kTolerance * wanted.norm().item<double>() + floor) << name;
    return;
  }
  const at::Tensor wanted = expected.tensors.tensor(expected.prefix + "sketch." + name);
  const auto* const values = wanted.const_data_ptr<double>();
  const std::vector<double> ours = sketch(found, wanted.numel());
  for (size_t i = 0; i < ours.size(); ++i)
    EXPECT_NEAR(ours[i], values[i], 2 * (kTolerance * values[0] + floor)) << name << ", projection " << i;
}

void expect_logits(models::Model& model, const models::Batch& batch, const Expected& expected) {
  const at::NoGradGuard no_grad;
  const at::Tensor logits = model.logits(batch, {});
  for (int64_t i = 0; i < batch.target->samples(); ++i) {
    const nn::Span span = batch.target->spans[i];
    expect_tensor(expected, "logits_" + std::to_string(i), logits.narrow(0, span.begin, span.length), 0);
  }
}

void expect_gradients(models::Model& model, const models::Batch& batch, const Expected& expected) {
  const at::Tensor loss = model.loss_sum(batch, {});
  ASSERT_EQ(batch.target_tokens, expected.scalars["target_tokens"].get<int64_t>());
  EXPECT_NEAR(loss.item<double>() / expected.scalars["loss_sum"].get<double>(), 1.0, kTolerance);
  torch::autograd::backward({loss / static_cast<double>(batch.target_tokens)}, {});
  double all = 0;
  for (const nn::ParameterPtr& p : model.all_parameters()) all += std::pow(p->value.grad().norm().item<double>(), 2);
  for (const nn::ParameterPtr& p : model.all_parameters())
    expect_tensor(expected, "gradient." + p->name, p->value.grad(), 1e-8 * std::sqrt(all));
  size_t stored = 0;
  for (const std::string& name : expected.tensors.names())
    stored += name.starts_with(expected.prefix + "gradient.") || name.starts_with(expected.prefix + "sketch.gradient.");
  EXPECT_EQ(model.all_parameters().size(), stored);
}

/// The greedy continuation of every sample, up to and including an end token.
std::vector<std::vector<int64_t>> continued(models::Model& model, const models::Batch& batch, int64_t new_tokens) {
  const at::NoGradGuard no_grad;
  models::Decoding decoding(batch, model, 0, new_tokens);
  nn::Pass pass;
  pass.cache = &decoding.cache();
  const std::vector<int64_t> ends = model.end_tokens();
  std::vector<std::vector<int64_t>> texts(batch.source->samples());
  decoding.begin(model, pass);
  for (int64_t step = 0; step < new_tokens; ++step) {
    const at::Tensor next = at::argmax(model.decode(decoding.tokens(), pass), -1);
    decoding.advance([&](size_t row) { return next.const_data_ptr<int64_t>()[row]; });
    for (size_t s = 0; s < texts.size(); ++s)
      if (texts[s].empty() || std::find(ends.begin(), ends.end(), texts[s].back()) == ends.end())
        texts[s].push_back(next.const_data_ptr<int64_t>()[s]);
  }
  return texts;
}

void expect_golden(models::Model& model, const models::Batch& batch, const Expected& expected) {
  expect_logits(model, batch, expected);
  expect_gradients(model, batch, expected);
  if (!expected.scalars.contains("generation")) return;
  const auto& generation = expected.scalars["generation"];
  EXPECT_EQ(continued(model, batch, generation["max_new_tokens"]),
            generation["tokens"].get<std::vector<std::vector<int64_t>>>());
}

Task task_of(const std::string& name) {
  return name.ends_with("_classifier") ? Task::kSequenceClassification : Task::kCausalLm;
}

class LlamaGolden : public ::testing::TestWithParam<std::string> {
 protected:
  LlamaGolden() : golden(GetParam(), task_of(GetParam())) {}
  FamilyCase golden;
};

TEST_P(LlamaGolden, MatchesTransformers) {
  const auto model = golden.build(golden.config);
  expect_golden(*model, golden.all(), {golden.expected, golden.tensors, ""});
  EXPECT_EQ(model->class_name(), golden.config["architectures"][0].get<std::string>());
}

// Configurations with old key names and with new ones are both written with new ones.
TEST_P(LlamaGolden, SavedConfigGivesTheSameModel) {
  const std::string saved = golden.build(golden.config)->config_json();
  const auto model = golden.build(nlohmann::json::parse(saved));
  EXPECT_EQ(model->config_json(), saved);
  expect_golden(*model, golden.all(), {golden.expected, golden.tensors, ""});
}

TEST_P(LlamaGolden, DropoutDependsOnTheSampleNotTheBatch) {
  const at::NoGradGuard no_grad;
  golden.config["attention_dropout"] = 0.3;
  const auto model = golden.build(golden.config);
  nn::Pass pass;
  pass.training = true;
  pass.seed = 5;
  const at::Tensor together = model->logits(golden.all(), pass);
  const at::Tensor apart =
      at::cat({model->logits(golden.samples(0, 1), pass), model->logits(golden.samples(1, 4), pass)});
  EXPECT_LT(distance(apart, together), 1e-6);
  EXPECT_GT(distance(model->logits(golden.all(), {}), together), 0.01);
}

TEST_P(LlamaGolden, WorksWithoutValues) {  // Note [Dry run]
  dist::count_dry_memory();
  const auto model = golden.build(golden.config);
  for (const nn::ParameterPtr& p : model->all_parameters())
    p->value = at::empty(p->shape, at::TensorOptions(at::kFloat).device(at::kMeta)).set_requires_grad(true);
  models::Batch batch = golden.all();
  batch.source_ids = batch.source_ids.to(at::kMeta), batch.labels = batch.labels.to(at::kMeta);
  torch::autograd::backward({model->loss_sum(batch, {})}, {});
  for (const nn::ParameterPtr& p : model->all_parameters()) EXPECT_EQ(p->value.grad().sizes(), p->shape) << p->name;
}

// With a single prompt token, the first pass has no tokens.
TEST_P(LlamaGolden, PromptsMayHaveOneToken) {
  const auto model = golden.build(golden.config);
  if (model->classifies()) return;
  models::Batch prompt = golden.samples(2, 3);
  prompt.source_ids = prompt.source_ids.slice(0, 0, 1);
  auto rows = std::make_shared<nn::Layout>();
  rows->append(1, 0);
  prompt.source = rows;
  prompt.target = prompt.source;
  const at::NoGradGuard no_grad;
  const int64_t likeliest = at::argmax(model->logits(prompt, {})).item<int64_t>();
  EXPECT_EQ(continued(*model, prompt, 1)[0][0], likeliest);
}

INSTANTIATE_TEST_SUITE_P(Cases, LlamaGolden,
                         ::testing::Values("llama/llama", "llama/mistral", "llama/qwen2", "llama/qwen3",
                                           "llama/smollm3", "llama/mistral_classifier", "llama/qwen3_classifier", "gemma/gemma",
                                           "gemma/gemma2", "gemma/gemma3", "gemma/gemma_classifier",
                                           "gemma/gemma2_classifier", "gemma/gemma3_classifier"),
                         [](const auto& info) { return info.param.substr(info.param.find('/') + 1); });

class RopeGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(RopeGolden, MatchesTransformers) {
  const FamilyCase golden("llama/rope", Task::kCausalLm);
  const nlohmann::json& scalars = golden.expected[GetParam()];
  nlohmann::json config = golden.config;
  config.update(scalars["config"]);
  const auto model = golden.build(config), again = golden.build(nlohmann::json::parse(model->config_json()));
  expect_golden(*model, golden.all(), {scalars, golden.tensors, GetParam() + "."});
  expect_golden(*again, golden.all(), {scalars, golden.tensors, GetParam() + "."});
}

INSTANTIATE_TEST_SUITE_P(Kinds, RopeGolden,
                         ::testing::Values("default", "linear", "dynamic", "yarn", "yarn_mscale", "yarn_factor",
                                           "longrope", "llama3", "proportional"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace trainer::testing
