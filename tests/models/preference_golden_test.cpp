// The losses of Direct Preference Optimization against TRL (tests/golden/make_preference.py), for the model alone.
#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/norm.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "models/decoder_model.h"
#include "models/nn/linear_cross_entropy.h"
#include "models/nn/preference_loss.h"
#include "tests/models/family_case.h"
#include "tests/support/source_dir.h"

namespace trainer::testing {
namespace {

constexpr int64_t kPairs = 3, kUpdates = 4;  // of an update
constexpr double kRate = 0.5;

at::Tensor as_tensor(const std::vector<int64_t>& values) {
  at::Tensor tensor = at::empty({static_cast<int64_t>(values.size())}, at::kLong);
  std::copy(values.begin(), values.end(), tensor.data_ptr<int64_t>());
  return tensor;
}

/// Pairs [first, last) as a batch, without a reference.
models::Batch batch_of(const nlohmann::json& pairs, int64_t first, int64_t last) {
  auto rows = std::make_shared<nn::Layout>();
  std::vector<int64_t> ids, labels;
  for (int64_t i = first; i < last; ++i)
    for (const char* const reply : {"chosen_ids", "rejected_ids"}) {
      const auto& pair = pairs[static_cast<size_t>(i)];
      const std::vector<int64_t> prompt = pair["prompt_ids"], answer = pair[reply];
      ids.insert(ids.end(), prompt.begin(), prompt.end());
      ids.insert(ids.end(), answer.begin(), answer.end());
      labels.insert(labels.end(), prompt.size() - 1, -100);
      labels.insert(labels.end(), answer.begin(), answer.end());
      labels.push_back(-100);
      rows->append(static_cast<int64_t>(prompt.size() + answer.size()), i);
    }
  const auto learned = std::count_if(labels.begin(), labels.end(), [](int64_t label) { return label != -100; });
  return {as_tensor(ids), as_tensor(labels), rows, rows, learned};
}

nn::PreferenceOptions options_of(const nlohmann::json& given) {
  const std::string loss = given.contains("loss_type") ? given["loss_type"][0] : "sigmoid";
  static const std::map<std::string, nn::PreferenceKind> kinds{{"sigmoid", nn::PreferenceKind::kSigmoid},
                                                               {"robust", nn::PreferenceKind::kRobust},
                                                               {"hinge", nn::PreferenceKind::kHinge},
                                                               {"ipo", nn::PreferenceKind::kIpo},
                                                               {"sigmoid_norm", nn::PreferenceKind::kSigmoidNorm}};
  const double sft = given.contains("loss_weights") ? given["loss_weights"][1].get<double>() : 0;
  return {kinds.at(loss), given["beta"], given.value("label_smoothing", 0.0), sft};
}

class PreferenceGolden : public ::testing::TestWithParam<std::string> {
 protected:
  void expect(const at::Tensor& found, const std::string& name) const {
    const at::Tensor expected = tensors.tensor(GetParam() + "." + name);
    EXPECT_LE((found - expected).norm().item<double>(), 1e-4 * expected.norm().item<double>() + 1e-7) << name;
  }

  const nlohmann::json file = nlohmann::json::parse(golden_text("preference/expected.json"));
  const nlohmann::json& golden = file["cases"][GetParam()];
  const tensorfile::TensorFolder weights{source_dir() + "/tests/golden/preference"};
  const tensorfile::SafetensorsFile tensors{source_dir() + "/tests/golden/preference/expected.safetensors"};
};

TEST_P(PreferenceGolden, FourUpdatesMatchTrl) {
  const auto model =
      models::build_model({.config_json = golden_text("preference/config.json"), .task = models::Task::kCausalLm});
  auto& decoder = dynamic_cast<models::DecoderModel&>(*model);
  for (const nn::ParameterPtr& p : model->all_parameters())
    p->value = weights.find(p->name)->tensor(p->name).clone().set_requires_grad(true);
  nn::Pass pass;
  pass.training = true;
  pass.preference = options_of(golden["options"]);
  const auto pairs = static_cast<int64_t>(file["pairs"].size());
  const at::Tensor reference = decoder.log_probs(batch_of(file["pairs"], 0, pairs), pass).view({pairs, 2});
  for (int64_t update = 0; update < kUpdates; ++update) {
    const int64_t first = update * kPairs % pairs;
    models::Batch batch = batch_of(file["pairs"], first, first + kPairs);
    batch.reference = reference.narrow(0, first, kPairs);
    pass.rewards = std::make_shared<nn::RewardSums>();
    const at::Tensor loss = decoder.loss_sum(batch, pass) / static_cast<double>(kPairs);
    torch::autograd::backward({loss}, {});
    std::map<std::string, double> rewards = nn::reward_metrics(pass.rewards->sums()), expected;
    const int64_t parts = static_cast<int64_t>(golden["batches"].size()) / kUpdates;  // TRL's micro-batches
    for (int64_t part = 0; part < parts; ++part)
      for (const auto& [name, value] : golden["batches"][static_cast<size_t>(update * parts + part)].items())
        expected[name] += value.get<double>() / static_cast<double>(parts);
    EXPECT_NEAR(loss.item<double>(), expected["loss"], 1e-5 * std::abs(expected["loss"])) << update;
    for (const char* const name : {"chosen", "rejected", "margins"})
      EXPECT_NEAR(rewards[std::string("rewards/") + name], expected[name], 1e-5 + 1e-4 * std::abs(expected[name]))
          << update << " " << name;
    if (update > 0) {  // before the first, both rewards are 0 but for rounding
      EXPECT_NEAR(rewards["rewards/accuracies"], expected["accuracies"], 1e-6) << update;
    }
    const at::NoGradGuard no_grad;
    for (const nn::ParameterPtr& p : model->all_parameters()) {
      if (update == 0) expect(p->value.grad(), "gradient." + p->name);
      p->value.sub_(p->value.grad() * kRate);
      p->value.mutable_grad() = at::Tensor();
    }
  }
  for (const nn::ParameterPtr& p : model->all_parameters()) expect(p->value.detach(), "end." + p->name);
}

INSTANTIATE_TEST_SUITE_P(Losses, PreferenceGolden,
                         ::testing::Values("sigmoid", "accumulated", "robust", "hinge", "ipo", "sigmoid_norm", "rpo"),
                         [](const auto& info) { return info.param; });

TEST(PreferenceTerms, RpoLossAndGradientAreTheirDefinition) {
  const at::Tensor log_probs = at::randn({5, 2}, at::kDouble).mul_(4).requires_grad_(),
                   reference = at::randn({5, 2}, at::kDouble).mul_(4), tokens = at::rand({5, 2}, at::kDouble) * 9 + 1;
  for (const auto kind : {nn::PreferenceKind::kHinge, nn::PreferenceKind::kIpo}) {
    const nn::PreferenceTerms without = nn::preference_terms({kind, 0.3, 0}, log_probs.detach(), reference, tokens);
    const nn::PreferenceTerms with = nn::preference_terms({kind, 0.3, 0, 0.7}, log_probs.detach(), reference, tokens);
    log_probs.mutable_grad() = at::Tensor();
    const at::Tensor added = -0.7 * log_probs.select(1, 0) / tokens.select(1, 0);
    torch::autograd::backward({added.sum()}, {});
    EXPECT_LT(distance(with.loss, without.loss + added.detach()), 1e-12);
    EXPECT_LT(distance(with.grad, without.grad + log_probs.grad()), 1e-12);
  }
}

TEST(PreferenceTerms, ConservativeLossAndGradientAreTheirDefinition) {
  const nn::PreferenceOptions options{nn::PreferenceKind::kSigmoid, 0.3, 0.2};
  const at::Tensor log_probs = at::randn({5, 2}, at::kDouble).mul_(4).requires_grad_(),
                   reference = at::randn({5, 2}, at::kDouble).mul_(4), tokens = at::rand({5, 2}, at::kDouble);
  const at::Tensor ratios = log_probs - reference, scaled = 0.3 * (ratios.select(1, 0) - ratios.select(1, 1));
  const at::Tensor loss = -0.8 * at::log_sigmoid(scaled) - 0.2 * at::log_sigmoid(-scaled);
  torch::autograd::backward({loss.sum()}, {});
  const nn::PreferenceTerms terms = nn::preference_terms(options, log_probs.detach(), reference, tokens);
  EXPECT_LT(distance(terms.loss, loss.detach()), 1e-12);
  EXPECT_LT(distance(terms.grad, log_probs.grad()), 1e-12);
}

TEST(PreferenceLoss, IsTheSameInChunksOfRows) {
  const at::Tensor labels = (at::rand({12}) * 31).to(at::kLong), x = at::randn({12, 7}), weight = at::randn({31, 7}),
                   reference = at::randn({2, 2}, at::kDouble);
  auto rows = std::make_shared<nn::Layout>();
  for (const int64_t length : {3, 4, 2, 3}) rows->append(length, 0);
  const auto run = [&](int64_t rows_of_chunk) {
    nn::Linear head(7, 31, false, {});
    head.weight()->value = weight.clone().requires_grad_();
    const at::Tensor in = x.clone().requires_grad_();
    nn::Pass pass;
    pass.rows_to_loss = nn::preference_loss({}, rows, reference);
    const at::Tensor loss = nn::linear_cross_entropy_sum(head, {in}, labels, pass, {5.0, nullptr, rows_of_chunk});
    torch::autograd::backward({loss * 0.5}, {});
    return std::vector<at::Tensor>{loss.detach(), in.grad(), head.weight()->value.grad()};
  };
  const auto whole = run(12), cut = run(5);
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_LT(distance(cut[i], whole[i]), 1e-6) << i;
}

}  // namespace
}  // namespace trainer::testing
