// Every optimizer against torch, transformers and PEFT, for replicated and sharded tensors.
#include <algorithm>
#include <fstream>
#include <mutex>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>

#include "engine/config/names.h"
#include "engine/optim/optimizer.h"
#include "engine/optim/parameter_rules.h"
#include "tests/support/ranks.h"
#include "tests/support/source_dir.h"

namespace trainer::testing {
namespace {

using nlohmann::json;
using optim::Trained;
using Values = std::map<std::string, std::vector<double>>;

json golden(const std::string& name = "optimizers.json") {
  std::ifstream in(source_dir() + "/tests/golden/" + name);
  return json::parse(in);
}

enum class Spread { kCopied, kSharded };

at::Tensor piece_of(const json& numbers, int64_t begin, int64_t end) {
  const auto all = numbers.get<std::vector<float>>();
  return at::tensor(std::vector<float>(all.begin() + begin, all.begin() + end), at::kFloat);
}

/// One rank's part of the golden file's tensors. If sharded, they are concatenated and split anywhere.
Trained tensors_of(const json& file, Spread spread, const dist::Comm& comm) {
  int64_t whole = 0, at = 0;
  for (const auto& [name, numbers] : file["start"].items()) whole += static_cast<int64_t>(numbers.size());
  const int64_t low = whole * comm.rank() / comm.size(), high = whole * (comm.rank() + 1) / comm.size();
  Trained tensors;
  for (const auto& [name, numbers] : file["start"].items()) {
    const auto numel = static_cast<int64_t>(numbers.size());
    parallel::LogicalTensor tensor{name, {}, file["shapes"][name], true, 0, numel, true, {}, {}};
    if (spread == Spread::kSharded) {
      tensor.replicated = false;
      tensor.begin = std::clamp<int64_t>(low - at, 0, numel);
      tensor.end = std::clamp<int64_t>(high - at, 0, numel);
    }
    tensor.value = piece_of(numbers, tensor.begin, tensor.end);
    tensor.grad = at::zeros_like(tensor.value);
    at += numel;
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

config::TrainingConfig options_of(const json& run) {
  config::TrainingConfig options;
  options.optim_args = run["optim_args"];
  options.weight_decay = run["weight_decay"];
  for (const auto& [optim, name] : config::EnumNames<config::OptimizerName>::values)
    if (name == run["optim"].get<std::string>()) options.optim = optim;
  return options;
}

void train(const json& file, const json& run, dist::Comm& comm, const Trained& tensors) {
  const auto optimizer = optim::make_optimizer(options_of(run), tensors, comm);
  const double highest = file["learning_rate"], updates = file["updates"];
  double update = 0;
  for (const json& gradients : file["gradients"]) {
    for (const auto& tensor : tensors) tensor.grad.copy_(piece_of(gradients[tensor.name], tensor.begin, tensor.end));
    optimizer->step(tensors, highest * ++update / updates);
  }
}

Values trained_values(const json& file, const json& run, Spread spread, int ranks) {
  Values values;
  for (const auto& [name, numbers] : file["start"].items()) values[name].resize(numbers.size(), -1e9);
  std::mutex mutex;
  run_ranks(ranks, [&](dist::Comm& comm) {
    const Trained tensors = tensors_of(file, spread, comm);
    train(file, run, comm, tensors);
    const std::lock_guard lock(mutex);
    for (const auto& tensor : tensors)
      std::copy_n(tensor.value.const_data_ptr<float>(), tensor.value.numel(),
                  values[tensor.name].begin() + tensor.begin);
  });
  return values;
}

void expect_golden(const json& file, Spread spread, int ranks, double tolerance) {
  for (const json& run : file["runs"]) {
    const Values values = trained_values(file, run, spread, ranks);
    for (const auto& [name, numbers] : run["values"].items())
      for (size_t i = 0; i < numbers.size(); ++i)
        ASSERT_NEAR(values.at(name)[i], numbers[i].get<double>(),
                    tolerance * std::max(1.0, std::abs(values.at(name)[i])))
            << run["optim"] << " " << run["optim_args"] << ", weight decay " << run["weight_decay"] << ", " << ranks
            << " ranks: " << name << "[" << i << "]";
  }
}

void expect_golden(Spread spread, int ranks) {
  const json file = golden();
  ASSERT_EQ(file["runs"].size(), 20U);
  expect_golden(file, spread, ranks, 1e-6);
}

TEST(Optimizers, MatchTheOriginals) {
  expect_golden(Spread::kCopied, 1);
}

TEST(Optimizers, AreTheSameOnReplicas) {
  expect_golden(Spread::kCopied, 2);
}

TEST(Optimizers, AreTheSameOnAnyShards) {
  for (const int ranks : {1, 2, 3, 5}) expect_golden(Spread::kSharded, ranks);
}

/// The iteration runs in bf16. Its products may be rounded otherwise on another CPU, which changes an element of a
/// result near 1 by 2^-8, times a learning rate of at most 1e-2 (and adjust_lr_fn's factor, up to 2 here), 12 times.
constexpr double kMuonTolerance = 12 * 2e-2 / 256;

TEST(Muon, MatchesTorch) {
  expect_golden(golden("muon.json"), Spread::kCopied, 1, kMuonTolerance);
}

TEST(Muon, IsTheSameOnReplicasAndAnyShards) {
  const json file = golden("muon.json");
  ASSERT_EQ(file["runs"].size(), 4U);
  for (const json& run : file["runs"]) {
    const Values alone = trained_values(file, run, Spread::kCopied, 1);
    for (const auto& [spread, ranks] : {std::pair{Spread::kCopied, 2}, std::pair{Spread::kSharded, 2},
                                        std::pair{Spread::kSharded, 3}, std::pair{Spread::kSharded, 5}})
      for (const auto& [name, numbers] : trained_values(file, run, spread, ranks))
        for (size_t i = 0; i < numbers.size(); ++i)
          ASSERT_NEAR(numbers[i], alone.at(name)[i], 1e-6) << ranks << " ranks: " << name << "[" << i << "]";
  }
}

TEST(Muon, HoldsMomentumOfMatricesAndMomentsOfAllOthers) {
  const json file = golden("muon.json");
  const auto comm = dist::solo_comm();
  const Trained tensors = tensors_of(file, Spread::kCopied, *comm);
  std::map<std::string, std::string> kinds;
  const auto optimizer = optim::make_optimizer(options_of(file["runs"][0]), tensors, *comm);
  for (const auto& state : optimizer->state()) kinds[state.parameter] += state.kind + " ";
  EXPECT_EQ(kinds, (std::map<std::string, std::string>{{"b.weight", "exp_avg exp_avg_sq "},
                                                       {"c.weight", "exp_avg exp_avg_sq "},
                                                       {"d.bias", "exp_avg exp_avg_sq "},
                                                       {"embed_tokens.weight", "exp_avg exp_avg_sq "},
                                                       {"lm_head.weight", "exp_avg exp_avg_sq "},
                                                       {"square.weight", "momentum "},
                                                       {"tall.weight", "momentum "},
                                                       {"wide.weight", "momentum "}}));
}

TEST(Muon, UsesEachRanksOwnGradientsUnderLocalSgd) {
  run_ranks(2, [](dist::Comm& comm) {
    config::TrainingConfig options;
    options.optim = config::OptimizerName::kMuon;
    options.local_sgd_steps = 4;
    const Trained tensors{{"q.weight", {}, {2, 2}, true, 0, 4, true, at::tensor({0.0F, 0.0F, 0.0F, 0.0F}), {}}};
    Trained with = tensors;
    const float sign = comm.rank() == 0 ? 1.0F : -1.0F;
    with[0].grad = at::tensor({sign, 0.0F, 0.0F, sign});
    optim::make_optimizer(options, with, comm)->step(with, 1);
    EXPECT_LT(with[0].value[0].item<float>() * sign, -0.5F);
  });
}

TEST(Adafactor, HoldsRowsAndColumnsWholeOnEveryRank) {
  const json file = golden();
  run_ranks(3, [&](dist::Comm& comm) {
    config::TrainingConfig options;
    options.optim = config::OptimizerName::kAdafactor;
    const Trained tensors = tensors_of(file, Spread::kSharded, comm);
    const auto optimizer = optim::make_optimizer(options, tensors, comm);
    ASSERT_EQ(optimizer->state().size(), 8U);  // three with rows and columns, two unfactored
    for (const optim::StateTensor& state : optimizer->state()) {
      const auto of = std::find_if(tensors.begin(), tensors.end(), [&](auto& t) { return t.name == state.parameter; });
      const parallel::LogicalTensor whole = state.logical(*of);
      EXPECT_EQ(whole.end - whole.begin, state.value.numel());
      EXPECT_EQ(whole.replicated, state.kind != "exp_avg_sq");
      if (state.parameter != "b.weight") continue;
      EXPECT_EQ(whole.shape, (std::vector<int64_t>{3, state.kind == "exp_avg_sq_row" ? 4 : 5}));
    }
  });
}

TEST(LoraPlus, RatesAndDecaysMatchPeft) {
  const json peft = golden()["lora_plus"];
  const double rate = peft["learning_rate"];
  ASSERT_EQ(peft["parameters"].size(), 9U);
  for (const json& parameter : peft["parameters"]) {
    parallel::LogicalTensor tensor;
    tensor.name = parameter["name"];
    tensor.shape = parameter["shape"].get<std::vector<int64_t>>();
    const optim::UpdateRule rule = optim::lora_plus_rule(tensor, peft["ratio"], rate);
    EXPECT_NEAR(rule.rate * rate, parameter["lr"].get<double>(), 1e-15) << tensor.name;
    EXPECT_EQ(rule.decays, parameter["weight_decay"].get<double>() > 0) << tensor.name;
  }
}

TEST(LoraPlus, MovesBFaster) {
  config::TrainingConfig options;
  options.optim = config::OptimizerName::kSgd;
  options.loraplus_lr_ratio = 8;
  const auto comm = dist::solo_comm();
  Trained tensors;
  for (const char* name : {"q.lora_A.weight", "q.lora_B.weight"})
    tensors.push_back({name, {}, {1, 1}, true, 0, 1, true, at::tensor({0.0F}), at::tensor({1.0F})});
  optim::make_optimizer(options, tensors, *comm)->step(tensors, 0.5);
  EXPECT_EQ(tensors[0].value.item<float>(), -0.5F);
  EXPECT_EQ(tensors[1].value.item<float>(), -4.0F);
}

}  // namespace
}  // namespace trainer::testing
