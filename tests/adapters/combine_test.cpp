// Combined adapters against PEFT's add_weighted_adapter (tests/golden/make_weighted.py).
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <ATen/TensorOperators.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>

#include "engine/adapters/combine.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/tensorfile/safetensors_file.h"
#include "engine/train/combine/combine_adapters.h"
#include "engine/train/merge_adapter.h"
#include "engine/weights/export.h"
#include "tests/support/golden_case.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_folder.h"

namespace trainer::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kGoldenFolder = source_dir() + "/tests/golden/";
const std::string kWeighted = kGoldenFolder + "weighted/";

json expected() {
  return json::parse(read_file(kWeighted + "expected.json"));
}

std::vector<std::string> cases() {
  std::vector<std::string> names;
  const json all = expected();
  for (const auto& [name, value] : all.items()) names.push_back(name);
  return names;
}

class Combine : public ::testing::TestWithParam<std::string> {
 protected:
  json golden_ = expected()[GetParam()];
  TemporaryFolder folder_;
  fs::path output_ = folder_.path() / "combined";

  train::CombineRequest request() const {
    train::CombineRequest request;
    for (size_t i = 0; i < golden_["adapters"].size(); ++i)
      request.adapters.push_back({kWeighted + golden_["adapters"][i].get<std::string>(), golden_["weights"][i]});
    // Of one adapter, PEFT makes the linear sum, whatever it was asked for.
    const bool single = request.adapters.size() == 1;
    request.how = config::find_combination(single ? "linear" : golden_["combination_type"].get<std::string>());
    request.rank = golden_.value("svd_rank", 0);
    request.density = golden_.value("density", 1.0);
    request.sign_by_frequency = golden_.value("majority_sign_method", "") == "frequency";
    request.output = output_;
    return request;
  }
};

/// The product of a layer's A and B, whose names begin with `layer`.
at::Tensor product(const tensorfile::SafetensorsFile& file, const std::string& layer) {
  const bool linear = file.find(layer + ".lora_A.weight") != nullptr;
  return at::mm(file.tensor(layer + (linear ? ".lora_B.weight" : ".lora_embedding_B")),
                file.tensor(layer + (linear ? ".lora_A.weight" : ".lora_embedding_A")));
}

/// `found` without its last rows or columns, which must be 0, in the shape of `wanted`.
at::Tensor without_padding(at::Tensor found, const at::Tensor& wanted) {
  for (int64_t dim = 0; dim < 2; ++dim) {
    const int64_t size = wanted.size(dim), rest = found.size(dim) - size;
    EXPECT_GE(rest, 0);
    EXPECT_EQ(found.narrow(dim, size, rest).abs().sum().item<double>(), 0);
    found = found.narrow(dim, 0, size);
  }
  return found;
}

TEST_P(Combine, ComputesPeftsTensors) {
  const train::CombineResult result = train::combine_adapters(request());
  const tensorfile::SafetensorsFile theirs(kWeighted + "expected.safetensors");
  const tensorfile::SafetensorsFile ours(output_ / "adapter_model.safetensors");
  size_t compared = 0, products = 0;
  for (const std::string& name : theirs.names()) {
    if (!name.starts_with(GetParam() + ".base_model")) continue;
    const std::string own = name.substr(GetParam().size() + 1);
    const at::Tensor wanted = theirs.tensor(name);
    const bool decomposed = own.ends_with(".product");
    const at::Tensor found =
        decomposed ? product(ours, own.substr(0, own.size() - 8)) : without_padding(ours.tensor(own), wanted);
    EXPECT_LT(relative_error(found, wanted), decomposed ? 5e-6 : 1e-6) << own;
    ++compared, products += decomposed;
  }
  EXPECT_EQ(ours.names().size(), compared + products);
  EXPECT_EQ(result.layers, static_cast<int64_t>(compared + products) / 2);
}

TEST_P(Combine, WritesPeftsConfiguration) {
  train::combine_adapters(request());
  const json config = json::parse(read_file(output_ / "adapter_config.json"));
  EXPECT_EQ(config["r"], golden_["r"]);
  EXPECT_EQ(config["lora_alpha"], golden_["r"]);
  EXPECT_EQ(config["target_modules"], golden_["target_modules"]);
  EXPECT_EQ(config["use_rslora"], false);
  EXPECT_EQ(config["rank_pattern"], json::object());
}

/// With the combined adapter's values, by way of the file that other programs read.
TEST_P(Combine, MergesIntoTheBaseModel) {
  train::combine_adapters(request());
  const fs::path merged = folder_.path() / "merged";
  const std::string base = kGoldenFolder + golden_["base"].get<std::string>();
  train::merge_adapter({output_, base, merged, at::kFloat});
  const tensorfile::SafetensorsFile before(base + "/model.safetensors"), after(merged / "model.safetensors");
  const tensorfile::SafetensorsFile ours(output_ / "adapter_model.safetensors");
  const std::string root = "base_model.model.";
  for (const std::string& name : ours.names()) {
    const size_t end = name.find(".lora_");
    if (name.find("_A") == std::string::npos || name.find("wte") != std::string::npos) continue;
    const std::string layer = name.substr(0, end), weight = layer.substr(root.size()) + ".weight";
    const at::Tensor change = after.tensor(weight) - before.tensor(weight).to(at::kFloat);
    const at::Tensor wanted = product(ours, layer);
    EXPECT_LT(relative_error(change, base.ends_with("causal") ? wanted.t() : wanted), 1e-5) << weight;
  }
}

INSTANTIATE_TEST_SUITE_P(PeftCases, Combine, ::testing::ValuesIn(cases()), [](const auto& info) { return info.param; });

TEST(CombineTensors, RandomPruningComputesPeftsTensorsFromItsMasks) {
  const tensorfile::SafetensorsFile golden(kWeighted + "expected.safetensors");
  for (const std::string rule : {"dare_linear", "dare_ties"}) {
    const at::Tensor given = golden.tensor(rule + ".given"), masks = golden.tensor(rule + ".masks");
    adapters::CombineRule how{*config::find_combination(rule), 0.6, false, {}};
    how.draw_mask = [&, next = 0](const at::Tensor&, double density) mutable {
      EXPECT_EQ(density, 0.6);
      return masks[next++];
    };
    const at::Tensor found = adapters::combine({given[0], given[1], given[2]}, {0.5, -0.25, 2}, how);
    EXPECT_LT(relative_error(found, golden.tensor(rule + ".result")), 1e-6) << rule;
  }
}

/// What combining throws.
template <class E>
std::string combine_refusal(const train::CombineRequest& request) {
  try {
    train::combine_adapters(request);
  } catch (const E& error) {
    return error.what();
  }
  return "nothing was thrown";
}

class CombineOf : public ::testing::Test {
 protected:
  /// A request for adapters of `golden`/weighted, or in another folder.
  train::CombineRequest request(const std::vector<std::string>& folders, const char* combination) const {
    train::CombineRequest request;
    for (const std::string& one : folders)
      request.adapters.push_back({one.starts_with("/") ? fs::path(one) : fs::path(kWeighted + one), 0.5});
    request.how = config::find_combination(combination);
    request.output = output_;
    return request;
  }
  /// A copy of an adapter with other values in its adapter_config.json, and one more tensor.
  std::string changed(const std::string& name, const std::string& as, const json& changes,
                      const std::string& tensor = "", double value = 0) {
    const fs::path copy = folder_.path() / as;
    fs::copy(kWeighted + name, copy);
    json file = json::parse(read_file(copy / "adapter_config.json"));
    file.update(changes);
    publish_file(copy / "adapter_config.json", file.dump());
    if (tensor.empty()) return copy.string();
    checkpoint::Gathered tensors;
    {
      const tensorfile::SafetensorsFile own(copy / "adapter_model.safetensors");
      for (const std::string& one : own.names()) tensors[one] = own.tensor(one).clone();
    }
    tensors[tensor] = at::zeros({2, 3}) + value;
    checkpoint::write_tensors(copy / "adapter_model.safetensors", tensors);
    return copy.string();
  }
  json config() const { return json::parse(read_file(output_ / "adapter_config.json")); }

  TemporaryFolder folder_;
  fs::path output_ = folder_.path() / "combined";
};

TEST_F(CombineOf, AllProblemsAreReportedAtOnce) {
  const std::string on_one = changed("plain", "one", {{"base_model_name_or_path", "models/one"}});
  const std::string on_two = changed(
      "rslora", "two", {{"base_model_name_or_path", "models/two"}, {"task_type", "CAUSAL_LM"}, {"bias", "all"}});
  EXPECT_THAT(combine_refusal<ConfigError>(request({on_one, on_two}, "linear")),
              AllOf(HasSubstr("models/one"), HasSubstr("models/two"), HasSubstr("SEQ_2_SEQ_LM"),
                    HasSubstr("bias is all"), HasSubstr("is 3"), HasSubstr("needs equal ranks")));
  EXPECT_FALSE(fs::exists(output_));
}

TEST_F(CombineOf, OtherKindsAndVariantsAreRefused) {
  const std::string golden = kGoldenFolder + "peft/";
  EXPECT_THAT(combine_refusal<ConfigError>(request({golden + "ia3", golden + "loha"}, "svd")),
              AllOf(HasSubstr("peft_type is IA3"), HasSubstr("peft_type is LOHA")));
  EXPECT_THAT(combine_refusal<ConfigError>(request({golden + "dora", golden + "pissa"}, "svd")),
              AllOf(HasSubstr("DoRA's magnitudes"), HasSubstr("init_lora_weights is pissa")));
  EXPECT_THAT(combine_refusal<InputError>(request({"nowhere", golden + "ia3"}, "svd")),
              AllOf(HasSubstr("does not exist"), HasSubstr("IA3")));
}

TEST_F(CombineOf, AdaptersOfOtherModelsAreRefused) {
  const std::string gpt2 = kGoldenFolder + "peft/gpt2_classes";
  EXPECT_THAT(combine_refusal<ConfigError>(request({"gpt2_a", gpt2}, "cat")),
              AllOf(HasSubstr("h.0.attn.c_attn is [27, 9]"), HasSubstr("[24, 8]"), HasSubstr("different models")));
}

TEST_F(CombineOf, RanksByPatternAreComparedLayerByLayer) {
  const std::string wide = changed("wider", "wide", {{"r", 3}, {"rank_pattern", {{"never", 4}}}});
  EXPECT_THAT(combine_refusal<ConfigError>(request({wide, "patterns"}, "linear")),
              AllOf(HasSubstr("DenseReluDense.wo is 3"), HasSubstr("and 4 in"), HasSubstr("svd and cat don't")));
}

TEST_F(CombineOf, TrainedHeadsAreKeptUnlessTwoDiffer) {
  const std::string head = "base_model.model.lm_head.weight";
  const json saved = {{"modules_to_save", {"lm_head"}}};
  const std::string a = changed("plain", "a", saved, head, 1), b = changed("wider", "b", saved, head, 2);
  EXPECT_THAT(combine_refusal<ConfigError>(request({a, b}, "svd")),
              AllOf(HasSubstr("both replace"), HasSubstr("lm_head")));
  const train::CombineResult result = train::combine_adapters(request({"wider", a}, "svd"));
  EXPECT_THAT(result.whole, ::testing::ElementsAre(head));
  EXPECT_EQ(config()["modules_to_save"], json({"lm_head"}));
  EXPECT_EQ(tensorfile::SafetensorsFile(output_ / "adapter_model.safetensors").tensor(head).max().item<double>(), 1);
}

TEST_F(CombineOf, LayersThatNoListOfNamesDescribesAreListed) {
  const std::string first = changed("plain", "first", {{"layers_to_transform", {0, 1, 2}}});
  train::combine_adapters(request({first, "wider"}, "cat"));
  EXPECT_TRUE(config()["layers_to_transform"].is_null());
  EXPECT_THAT(
      config()["target_modules"].get<std::vector<std::string>>(),
      AllOf(::testing::Contains("encoder.block.0.layer.0.SelfAttention.q"), ::testing::Not(::testing::Contains("q"))));
  const std::string base = kGoldenFolder + expected()["linear"]["base"].get<std::string>();
  const auto merged = train::merge_adapter({output_, base, folder_.path() / "merged", at::kFloat});
  EXPECT_EQ(merged.layers, static_cast<int64_t>(config()["target_modules"].size()));
}

TEST_F(CombineOf, RslorasScaleIsInTheValues) {
  const std::string base = kGoldenFolder + expected()["linear"]["base"].get<std::string>();
  train::CombineRequest whole = request({"rslora"}, "linear");
  whole.adapters[0].weight = 1;
  train::combine_adapters(whole);
  train::merge_adapter({output_, base, folder_.path() / "combined_model", at::kFloat});
  train::merge_adapter({kWeighted + "rslora", base, folder_.path() / "own_model", at::kFloat});
  const tensorfile::SafetensorsFile combined(folder_.path() / "combined_model" / "model.safetensors");
  const tensorfile::SafetensorsFile own(folder_.path() / "own_model" / "model.safetensors");
  for (const std::string& name : own.names())
    EXPECT_LT(relative_error(combined.tensor(name), own.tensor(name)), 1e-6) << name;
}

TEST_F(CombineOf, RandomPruningIsDrawnFromTheSeed) {
  const auto drawn = [&](uint64_t seed, double density) {
    fs::remove_all(output_);
    train::CombineRequest asked = request({"plain", "wider"}, "dare_linear");
    asked.seed = seed;
    asked.density = density;
    train::combine_adapters(asked);
    return read_file(output_ / "adapter_model.safetensors");
  };
  EXPECT_EQ(drawn(1, 0.5), drawn(1, 0.5));
  EXPECT_NE(drawn(1, 0.5), drawn(2, 0.5));
  drawn(1, 0.3);
  const tensorfile::SafetensorsFile file(output_ / "adapter_model.safetensors");
  int64_t kept = 0, all = 0;
  for (const std::string& name : file.names()) {
    if (name.find(".q.") == std::string::npos) continue;  // only one adapter changes it
    kept += (file.tensor(name) != 0).sum().item<int64_t>();
    all += file.tensor(name).numel();
  }
  EXPECT_NEAR(static_cast<double>(kept) / static_cast<double>(all), 0.3, 0.05);
}

}  // namespace
}  // namespace trainer::testing
