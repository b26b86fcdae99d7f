// Merged models against PEFT's logits (tests/golden/make_peft.py).
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "engine/adapters/layers.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/config/plan/adapter_folder.h"
#include "engine/tensorfile/safetensors_file.h"
#include "engine/tensorfile/safetensors_writer.h"
#include "engine/train/build.h"
#include "engine/train/merge_adapter.h"
#include "engine/weights/export.h"
#include "tests/adapters/peft_case.h"
#include "tests/support/golden_case.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_folder.h"

namespace trainer::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;

const std::string kAdapters = source_dir() + "/tests/golden/peft";

/// Its two embeddings share a weight, which each changes in another way.
constexpr const char* kApart = "embeddings";

/// The golden adapters of kinds that can be merged.
std::vector<std::string> mergeable() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kAdapters)) {
    const json file = json::parse(read_file(entry.path() / "adapter_config.json"));
    if (adapters::all_layers().at(file["peft_type"])->merge != nullptr && entry.path().filename() != kApart)
      names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::unique_ptr<parallel::ParallelModel> opened(const fs::path& folder, config::Task task, dist::Comm& comm) {
  config::Plan plan;
  plan.config.num_processes = 1;
  plan.config.model.path = folder.string();
  plan.config.data.task = task;
  return make_model(plan, comm);
}

class Merge : public ::testing::TestWithParam<std::string> {};

TEST_P(Merge, MergedModelsComputePeftsLogits) {
  const PeftCase golden(GetParam());
  const TemporaryFolder folder;
  const fs::path output = folder.path() / "merged";
  const auto result = train::merge_adapter({golden.folder(), golden.base_folder(), output, at::kFloat});
  EXPECT_GT(result.layers + static_cast<int64_t>(result.replaced.size()), 0);
  const auto comm = dist::solo_comm();
  const auto model = opened(output, result.plan.config.data.task, *comm);
  // PiSSA subtracts the initial singular vectors, which LAPACK computes with CPU-dependent rounding: PEFT's differ.
  golden.expect_logits(model->model(), GetParam().starts_with("pissa") ? 2e-5 : 1e-5);
}

TEST_P(Merge, MergedModelsComputeTheLogitsOfTheAdapter) {
  PeftCase golden(GetParam());
  const at::NoGradGuard no_grad;
  const TemporaryFolder folder;
  const fs::path output = folder.path() / "merged";
  const auto result = train::merge_adapter({golden.folder(), golden.base_folder(), output, at::kFloat});
  const auto comm = dist::solo_comm();
  const auto adapted = golden.make(*comm, config::DistributedType::kNo, true);
  const auto merged = opened(output, result.plan.config.data.task, *comm);
  const models::Batch batch = golden.batch();
  const at::Tensor expected = adapted->model().logits(batch, {}), found = merged->model().logits(batch, {});
  EXPECT_LT((found - expected).norm().item<double>(), 1e-5 * expected.norm().item<double>());
}

INSTANTIATE_TEST_SUITE_P(PeftAdapters, Merge, ::testing::ValuesIn(mergeable()),
                         [](const auto& info) { return info.param; });

/// What merging throws.
template <class E>
std::string refusal(const train::MergeRequest& request) {
  try {
    train::merge_adapter(request);
  } catch (const E& error) {
    return error.what();
  }
  return "nothing was thrown";
}

class MergeOf : public ::testing::Test {
 protected:
  /// A copy of an adapter with other values in its adapter_config.json.
  fs::path changed(const std::string& name, const json& changes) {
    const fs::path copy = folder_.path() / "adapter";
    fs::copy(kAdapters + "/" + name, copy);
    json file = json::parse(read_file(copy / "adapter_config.json"));
    if (changes.is_object()) file.update(changes);
    publish_file(copy / "adapter_config.json", file.dump());
    return copy;
  }
  /// Adds a tensor to an adapter of GPT-2, made from the embedding of its base model.
  void add_tensor(const fs::path& adapter, const std::string& name,
                  const std::function<at::Tensor(const at::Tensor& table)>& make) {
    const at::Tensor table = tensorfile::SafetensorsFile(base_of("gpt2_bias") + "/model.safetensors")
                                 .tensor("transformer.wte.weight")
                                 .to(at::kFloat);
    checkpoint::Gathered tensors;
    {
      const tensorfile::SafetensorsFile file(adapter / "adapter_model.safetensors");
      for (const std::string& one : file.names()) tensors[one] = file.tensor(one).clone();
    }
    tensors[name] = make(table);
    checkpoint::write_tensors(adapter / "adapter_model.safetensors", tensors);
  }
  /// Expects that the merged GPT-2 has two weights instead of one, and the same logits.
  void expect_untied(const fs::path& adapter, const std::string& weight) {
    const std::string base = base_of("gpt2_bias");
    const auto result = train::merge_adapter({adapter, base, output_, at::kFloat});
    EXPECT_FALSE(result.untied.empty());
    EXPECT_EQ(json::parse(read_file(output_ / "config.json"))["tie_word_embeddings"], false);
    const tensorfile::SafetensorsFile file(output_ / "model.safetensors");
    EXPECT_GT(relative_error(file.tensor("lm_head.weight"), file.tensor(weight)), 0.1);
    const auto comm = dist::solo_comm();
    const at::NoGradGuard no_grad;
    const models::Batch batch = PeftCase("gpt2_bias").batch();
    const at::Tensor found = opened(output_, result.plan.config.data.task, *comm)->model().logits(batch, {});
    EXPECT_LT(relative_error(found, make_model(result.plan, *comm)->model().logits(batch, {})), 1e-6);
  }
  std::string base_of(const std::string& name) const { return PeftCase(name).base_folder(); }
  bool nothing_was_written() const { return !fs::exists(output_) && !fs::exists(folder_.path() / ".merged.partial"); }

  TemporaryFolder folder_;
  fs::path output_ = folder_.path() / "merged";
};

TEST_F(MergeOf, PromptsIsRefused) {
  const std::string message = refusal<ConfigError>({kAdapters + "/prompt", base_of("prompt"), output_, {}});
  EXPECT_THAT(message, HasSubstr("PROMPT_TUNING"));
  EXPECT_THAT(message, HasSubstr("IA3, LOHA, LORA, VERA"));
  EXPECT_TRUE(nothing_was_written());
}

TEST_F(MergeOf, SharedWeightsThatTheFamilyCannotStoreApartIsRefused) {
  const std::string adapter = kAdapters + "/" + kApart;
  EXPECT_THAT(refusal<ConfigError>({adapter, base_of(kApart), output_, {}}),
              HasSubstr("can't store these layers apart"));
  EXPECT_TRUE(nothing_was_written());
}

TEST_F(MergeOf, AnAdapterNeedsItsBaseModel) {
  const fs::path adapter = changed("dora", {{"base_model_name_or_path", "/nowhere/t5"}});
  EXPECT_THAT(refusal<InputError>({adapter, "", output_, {}}), HasSubstr("/nowhere/t5 is not on this machine"));
  publish_file(adapter / "adapter_config.json", R"({"peft_type": "LORA"})");
  EXPECT_THAT(refusal<ConfigError>({adapter, "", output_, {}}), HasSubstr("--base"));
  EXPECT_THAT(refusal<InputError>({folder_.path() / "none", "", output_, {}}), HasSubstr("none does not exist"));
  EXPECT_TRUE(nothing_was_written());
}

TEST_F(MergeOf, AnAdapterOfAnotherModelIsRefused) {
  EXPECT_THAT(refusal<InputError>({kAdapters + "/dora", base_of("prompt"), output_, {}}),
              HasSubstr("does not fit the model"));
  EXPECT_TRUE(nothing_was_written());
}

TEST_F(MergeOf, AHeadThatWasTiedAndIsTrainedIsStoredApart) {
  const fs::path adapter = changed("gpt2_lora_only", {{"modules_to_save", {"lm_head"}}});
  add_tensor(adapter, "base_model.model.lm_head.weight", [](const at::Tensor& table) { return table * 0.5 + 0.1; });
  expect_untied(adapter, "transformer.wte.weight");
}

TEST_F(MergeOf, AnEmbeddingThatWasTiedAndIsTrainedIsStoredApart) {
  const fs::path adapter = changed("gpt2_lora_only", {{"modules_to_save", {"wte"}}});
  add_tensor(adapter, "base_model.model.transformer.wte.weight",
             [](const at::Tensor& table) { return table * 0.5 + 0.1; });
  expect_untied(adapter, "transformer.wte.weight");
}

TEST_F(MergeOf, ATiedEmbeddingWithLoraIsStoredApartFromTheHead) {
  const fs::path adapter = changed("gpt2_bias", {{"target_modules", {"c_attn", "wte"}}});
  const int64_t r = json::parse(read_file(adapter / "adapter_config.json"))["r"];
  const auto start = [r](const at::Tensor& table) { return table.narrow(0, 0, r).t().contiguous() * 3; };
  add_tensor(adapter, "base_model.model.transformer.wte.lora_embedding_B", start);
  add_tensor(adapter, "base_model.model.transformer.wte.lora_embedding_A",
             [r](const at::Tensor& table) { return table.narrow(1, 0, r).t().contiguous() * 3; });
  expect_untied(adapter, "transformer.wte.weight");
}

TEST_F(MergeOf, FilesThatExistAreNeverReplaced) {
  fs::create_directories(output_);
  publish_file(output_ / "mine.txt", "mine");
  EXPECT_THAT(refusal<ConfigError>({kAdapters + "/dora", base_of("dora"), output_, {}}), HasSubstr("is not empty"));
  EXPECT_EQ(read_file(output_ / "mine.txt"), "mine");
}

TEST_F(MergeOf, LeftoversOfAKilledMergeAreReplaced) {
  fs::create_directories(folder_.path() / ".merged.partial");
  publish_file(folder_.path() / ".merged.partial" / "old.json", "{}");
  fs::create_directories(output_);  // empty
  train::merge_adapter({kAdapters + "/dora", base_of("dora"), output_, {}});
  EXPECT_FALSE(fs::exists(output_ / "old.json"));
  EXPECT_TRUE(fs::exists(output_ / "model.safetensors"));
  EXPECT_FALSE(fs::exists(folder_.path() / ".merged.partial"));
}

TEST_F(MergeOf, WeightsGetTheDtypeThatWasAskedFor) {
  train::merge_adapter({kAdapters + "/gpt2_bias", base_of("gpt2_bias"), output_, at::kBFloat16});
  const tensorfile::SafetensorsFile file(output_ / "model.safetensors");
  for (const auto& tensor : file.tensors()) EXPECT_EQ(tensor.dtype->name, "BF16") << tensor.name;
  const json config = json::parse(read_file(output_ / "config.json"));
  EXPECT_EQ(config.value("dtype", config.value("torch_dtype", "")), "bfloat16");
}

TEST_F(MergeOf, TheTokenizerIsTheAdaptersIfItHasOne) {
  const fs::path adapter = changed("dora", {}), base = folder_.path() / "base";
  fs::copy(base_of("dora"), base, fs::copy_options::recursive);
  for (const char* const name : {"tokenizer.json", "vocab.json", "generation_config.json", "outcome.json"})
    publish_file(base / name, "{}");
  train::merge_adapter({adapter, base.string(), output_, {}});
  EXPECT_TRUE(fs::exists(output_ / "vocab.json"));
  EXPECT_TRUE(fs::exists(output_ / "generation_config.json"));
  EXPECT_FALSE(fs::exists(output_ / "outcome.json"));
  EXPECT_FALSE(fs::exists(output_ / "adapter_config.json"));
  publish_file(adapter / "tokenizer.json", R"({"own": 1})");
  fs::remove_all(output_);
  train::merge_adapter({adapter, base.string(), output_, {}});
  EXPECT_EQ(read_file(output_ / "tokenizer.json"), R"({"own": 1})");
  EXPECT_FALSE(fs::exists(output_ / "vocab.json"));
}

}  // namespace
}  // namespace trainer::testing
