// Compares with what llama.cpp's converters make of the same folders (tests/golden/make_gguf.py).
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <nlohmann/json.hpp>

#include "engine/adapters/inject.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/config/plan/adapter_folder.h"
#include "engine/gguf/export_adapter.h"
#include "engine/gguf/export_model.h"
#include "engine/gguf/gguf_writer.h"
#include "engine/weights/weight_sources.h"
#include "models/registry.h"
#include "tests/gguf/gguf_file.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_folder.h"

namespace trainer::gguf {
namespace {

namespace fs = std::filesystem;
using testing::GgufFile;
using testing::TemporaryFolder;

const fs::path kGolden = source_dir() + "/tests/golden/gguf";

struct Folder {
  std::unique_ptr<models::Model> model;
  std::unique_ptr<checkpoint::FolderSource> source;
};

Folder open(const fs::path& folder, const std::string& config_json) {
  Folder opened;
  models::BuildRequest request{.config_json = config_json, .origin = (folder / "config.json").string()};
  request.task = models::Task::kCausalLm;
  opened.model = models::build_model(request);
  opened.source = std::make_unique<checkpoint::FolderSource>(folder.string(), opened.model->base_prefix(), 0);
  opened.source->check(*opened.model);
  return opened;
}

Folder open(const fs::path& folder) {
  return open(folder, read_file(folder / "config.json"));
}

GgufFile exported(const std::string& name, TensorType type) {
  const TemporaryFolder out;
  const Folder folder = open(kGolden / name);
  export_model(*folder.model, *folder.source, {kGolden / name, name}, out.path() / "model.gguf", type);
  return GgufFile(read_file(out.path() / "model.gguf"));
}

/// Keys of ours that the converter leaves out where llama.cpp's default happens to be right.
bool is_made_explicit(const std::string& key) {
  for (const char* const ending :
       {".rope.freq_base", ".attention.key_length", ".attention.value_length", "ggml.add_bos_token",
        "ggml.add_eos_token", "ggml.add_space_prefix", "ggml.bos_token_id", "ggml.eos_token_id",
        "ggml.unknown_token_id", "ggml.padding_token_id"})
    if (key.ends_with(ending)) return true;
  return false;
}

/// What the converter writes although it means nothing: token ids of CodeGemma, in every Gemma; separators of pairs.
bool is_idle(const std::string& key) {
  for (const char* const role : {"prefix", "suffix", "middle", "fsep", "fim_pre", "fim_suf", "fim_mid", "eot"})
    if (key == std::string("tokenizer.ggml.") + role + "_token_id") return true;
  return key == "tokenizer.ggml.add_sep_token";
}

void expect_values(const GgufFile& found, const GgufFile& expected) {
  for (const auto& [key, value] : expected.values) {
    if (is_idle(key)) continue;
    const auto mine = found.values.find(key);
    ASSERT_NE(mine, found.values.end()) << key << ": " << value.substr(0, 100);
    EXPECT_EQ(mine->second, value) << key;
  }
  for (const auto& [key, value] : found.values)
    EXPECT_TRUE(expected.values.count(key) > 0 || is_made_explicit(key)) << key << ": " << value.substr(0, 100);
}

void expect_tensors(const GgufFile& found, const GgufFile& expected) {
  EXPECT_EQ(found.tensors.size(), expected.tensors.size());
  for (const auto& [name, tensor] : expected.tensors) {
    ASSERT_EQ(found.tensors.count(name), 1) << name;
    EXPECT_EQ(found.tensors.at(name).sizes, tensor.sizes) << name;
    EXPECT_EQ(found.tensors.at(name).type, tensor.type) << name;
    EXPECT_TRUE(found.tensors.at(name).bytes == tensor.bytes) << name;
  }
}

class Converted : public ::testing::TestWithParam<const char*> {};

TEST_P(Converted, EqualsLlamaCppsConverterBitForBit) {
  const std::string name = GetParam();
  const GgufFile found = exported(name, TensorType::kQ8_0), expected(read_file(kGolden / (name + ".gguf")));
  expect_values(found, expected);
  expect_tensors(found, expected);
}

INSTANTIATE_TEST_SUITE_P(Families, Converted,
                         ::testing::Values("llama", "llama3", "qwen2", "qwen3", "gemma", "gemma2", "gemma3", "gpt2"));

TEST(ExportAdapter, EqualsLlamaCppsConverter) {
  Folder folder = open(kGolden / "llama");
  config::LoraConfig options = config::read_adapter_config({.path = (kGolden / "adapter").string()});
  adapters::inject(*folder.model, options);
  const checkpoint::AdapterSource source(options.path, *folder.source, adapters::adapter_names(*folder.model, options));
  const TemporaryFolder out;
  export_adapter(*folder.model, source, options, "adapter", out.path() / "a.gguf", TensorType::kF32);
  const GgufFile found(read_file(out.path() / "a.gguf")), expected(read_file(kGolden / "adapter.gguf"));
  expect_values(found, expected);
  expect_tensors(found, expected);
}

TEST(ExportAdapter, ScalesBForRankStabilizedLora) {
  Folder folder = open(kGolden / "llama");
  config::LoraConfig options = config::read_adapter_config({.path = (kGolden / "adapter").string()});
  options.use_rslora = true;
  adapters::inject(*folder.model, options);
  const checkpoint::AdapterSource source(options.path, *folder.source, adapters::adapter_names(*folder.model, options));
  const TemporaryFolder out;
  export_adapter(*folder.model, source, options, "adapter", out.path() / "a.gguf", TensorType::kF32);
  const GgufFile found(read_file(out.path() / "a.gguf")), plain(read_file(kGolden / "adapter.gguf"));
  EXPECT_EQ(found.values.at("adapter.lora.alpha"), "f32 8");
  for (const auto& [name, tensor] : plain.tensors) {
    std::vector<float> mine(tensor.bytes.size() / 4), theirs(mine.size());
    std::memcpy(mine.data(), found.tensors.at(name).bytes.data(), tensor.bytes.size());
    std::memcpy(theirs.data(), tensor.bytes.data(), tensor.bytes.size());
    const float factor = name.ends_with(".lora_b") ? 2 : 1;  // 8 / sqrt(4) instead of 8 / 4
    for (size_t i = 0; i < mine.size(); ++i) EXPECT_EQ(mine[i], theirs[i] * factor) << name;
  }
}

TEST(ExportModel, ReadsVocabularyFilesAsTokenizerJson) {
  const TemporaryFolder folder;
  fs::copy(kGolden / "gpt2", folder.path(), fs::copy_options::recursive);
  const auto root = nlohmann::json::parse(read_file(folder.path() / "tokenizer.json"));
  fs::remove(folder.path() / "tokenizer.json");
  auto vocabulary = root.at("model").at("vocab");
  for (const auto& token : root.at("added_tokens")) vocabulary[token.at("content").get<std::string>()] = token.at("id");
  std::string merges = "#version: 0.2\n";
  for (const auto& merge : root.at("model").at("merges"))
    merges += merge.is_string() ? merge.get<std::string>() + "\n"
                                : merge[0].get<std::string>() + " " + merge[1].get<std::string>() + "\n";
  publish_file(folder.path() / "vocab.json", vocabulary.dump());
  publish_file(folder.path() / "merges.txt", merges);
  publish_file(folder.path() / "tokenizer_config.json", R"({"tokenizer_class": "GPT2Tokenizer"})");
  const Folder opened = open(folder.path());
  export_model(*opened.model, *opened.source, {folder.path(), "gpt2"}, folder.path() / "a.gguf", TensorType::kQ8_0);
  expect_values(GgufFile(read_file(folder.path() / "a.gguf")), GgufFile(read_file(kGolden / "gpt2.gguf")));
}

at::Tensor golden_values() {
  const std::string bytes = read_file(kGolden / "values.f32");
  at::Tensor values = at::empty({static_cast<int64_t>(bytes.size() / 4 / kBlock), kBlock}, at::kFloat);
  std::memcpy(values.mutable_data_ptr(), bytes.data(), bytes.size());
  return values;
}

std::string text_of(const at::Tensor& bytes) {
  return {static_cast<const char*>(bytes.const_data_ptr()), static_cast<size_t>(bytes.numel())};
}

TEST(Encode, Q8AndBf16EqualGgufsQuantization) {
  EXPECT_TRUE(text_of(encode(golden_values(), TensorType::kQ8_0, "x")) == read_file(kGolden / "values.q8_0"));
  EXPECT_TRUE(text_of(encode(golden_values(), TensorType::kBF16, "x")) == read_file(kGolden / "values.bf16"));
}

TEST(Encode, RefusesValuesBeyondFp16) {
  for (const double value : {1e5, std::numeric_limits<double>::infinity(), std::nan("")}) {
    EXPECT_THROW(encode(at::full({kBlock}, value, at::kFloat), TensorType::kF16, "x"), InputError) << value;
    EXPECT_NO_THROW(encode(at::full({kBlock}, value, at::kFloat), TensorType::kBF16, "x")) << value;
  }
  EXPECT_THROW(encode(at::full({kBlock}, 1e8, at::kFloat), TensorType::kQ8_0, "x"), InputError);
  EXPECT_NO_THROW(encode(at::full({kBlock}, 1e5, at::kFloat), TensorType::kQ8_0, "x"));  // a scale of 787
}

TEST(TypeOf, KeepsVectorsNormsAndPositionsInF32) {
  EXPECT_EQ(type_of("blk.0.attn_q.bias", {64}, TensorType::kQ8_0), TensorType::kF32);
  EXPECT_EQ(type_of("position_embd.weight", {64, 64}, TensorType::kF16), TensorType::kF32);
  EXPECT_EQ(type_of("blk.0.attn_q.weight", {64, 40}, TensorType::kQ8_0), TensorType::kF16);
  EXPECT_EQ(type_of("blk.0.attn_q.weight", {40, 64}, TensorType::kQ8_0), TensorType::kQ8_0);
}

std::string refusal(const std::string& name, const std::map<std::string, nlohmann::json>& changes) {
  auto config = nlohmann::json::parse(read_file(kGolden / name / "config.json"));
  for (const auto& [key, value] : changes) config[key] = value;
  const TemporaryFolder out;
  const fs::path file = out.path() / "model.gguf";
  try {
    const Folder folder = open(kGolden / name, config.dump());
    export_model(*folder.model, *folder.source, {kGolden / name, name}, file, TensorType::kF32);
  } catch (const ConfigError& error) {
    EXPECT_TRUE(fs::is_empty(out.path()));
    return error.what();
  }
  return "";
}

TEST(ExportModel, RefusesWhatLlamaCppWouldComputeOtherwise) {
  EXPECT_NE(refusal("llama", {{"hidden_act", "relu"}}).find("hidden_act is 'relu'"), std::string::npos);
  EXPECT_NE(refusal("gemma2", {{"query_pre_attn_scalar", 8}}).find("query_pre_attn_scalar is 8"), std::string::npos);
  EXPECT_NE(refusal("gpt2", {{"scale_attn_by_inverse_layer_idx", true}}).find("scale_attn_by_inverse_layer_idx"),
            std::string::npos);
  const std::string both = refusal(
      "llama",
      {{"hidden_act", "relu"}, {"rope_parameters", {{"rope_type", "dynamic"}, {"rope_theta", 1e4}, {"factor", 2.0}}}});
  EXPECT_NE(both.find("hidden_act"), std::string::npos) << both;
  EXPECT_NE(both.find("dynamic"), std::string::npos) << both;
}

TEST(GgufWriter, RemovesAnUnfinishedFile) {
  const TemporaryFolder out;
  {
    GgufWriter writer(out.path() / "x.gguf", {{"general.architecture", std::string("llama")}},
                      {{"a", TensorType::kF32, {2, 3}}});
    EXPECT_THROW(writer.write(at::full({3, 2}, 1.0, at::kFloat)), InternalError);
    EXPECT_THROW(writer.finish(), InternalError);
  }
  EXPECT_TRUE(fs::is_empty(out.path()));
}

}  // namespace
}  // namespace trainer::gguf
