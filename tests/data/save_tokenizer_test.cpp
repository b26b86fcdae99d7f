#include "data/tokenizers/save_tokenizer.h"

#include <nlohmann/json.hpp>

#include <gtest/gtest.h>

#include "data/tokenizers/tokenizer_trainer.h"
#include "tests/data/model_maker.h"
#include "tests/data/support.h"
#include "tests/support/source_dir.h"

namespace trainer::data {
namespace {

using Ids = std::vector<int32_t>;

const std::string kGoldenFolder = source_dir() + "/tests/golden/tokenizer/";

const std::vector<std::string> kTexts = {
    "",
    " ",
    "  Sales rose.",
    "     def f(x):\n        return x",
    "a  b   c ",
    "\n\n x",
    " <s> a",
    "<s> a",
    "<s>[INST] Hi",
    "</s></div>",
    "x</s>  y <unk>z",
    "\t1,234.56 %",
    "\u2581a",
    "a\u2581 b",
    "\u00e9\u4e2d\u65e5",
    "<extra_id_0> a <extra_id_1>b",
    "<0x0A>",
    "the <sep>ship<sep> x",
};

std::unique_ptr<Tokenizer> open_saved(const std::string& path) {
  return open_tokenizer({.path = path}, "");
}

nlohmann::json config_in(const TempFolder& folder) {
  return nlohmann::json::parse(read_all(folder / "tokenizer_config.json"));
}

/// Saves the tokenizer, and compares the ids of its tokenizer.json with its own.
void expect_same_ids(const Tokenizer& tokenizer) {
  TempFolder folder;
  save_tokenizer(tokenizer, "", folder.string());
  ASSERT_TRUE(std::filesystem::exists(folder / "tokenizer.json"));
  auto saved = open_saved(folder.string());
  for (const std::string& text : kTexts) EXPECT_EQ(saved->encode(text), tokenizer.encode(text)) << text;
  EXPECT_EQ(saved->size(), tokenizer.size());
  EXPECT_EQ(saved->bos_id(), tokenizer.bos_id());
  EXPECT_EQ(saved->eos_id(), tokenizer.eos_id());
  EXPECT_EQ(saved->unk_id(), tokenizer.unk_id());
  EXPECT_EQ(saved->pad_id(), tokenizer.pad_id());
  EXPECT_EQ(config_in(folder)["tokenizer_class"], "PreTrainedTokenizerFast");
}

/// Opens a tokenizer in LLaMA's layout, trained on texts like the golden corpus.
std::unique_ptr<Tokenizer> trained(const TempFolder& folder, const std::string& config, const std::string& type) {
  const std::vector<std::string> texts(20,
                                       "Sales rose 1,234 % [INST] def f(x): return x </div> the ship is in the bay");
  TokenizerTraining training{.vocab_size = 400, .layout = TokenizerLayout::kLlama, .model_type = type};
  for (const TokenizerFile& file : train_tokenizer(texts, training)) folder.write(file.name, file.content);
  folder.write("tokenizer_config.json", config);
  return open_saved(folder.string());
}

TEST(SaveTokenizer, WritesTokenizerJsonWithTheSameIds) {
  expect_same_ids(*open_saved(kGoldenFolder + "unigram"));
  TempFolder folder;
  expect_same_ids(*trained(folder, R"({"legacy": true})", "bpe"));
  expect_same_ids(*trained(folder, R"({"legacy": false})", "bpe"));
  expect_same_ids(*trained(folder, R"({"legacy": false, "add_bos_token": false, "add_eos_token": true})", "bpe"));
}

TEST(SaveTokenizer, WritesModelsWithUserDefinedSymbols) {
  TempFolder folder;
  folder.write("tokenizer_config.json", R"({"extra_ids": 0})");
  const std::string pieces = piece("<sep>", 0, 4) + piece("<sep>x", 0, 4) + piece("b\u2581", -1, 1);
  for (uint64_t type : {1, 2}) {
    folder.write("spiece.model", small_model(pieces + trainer_spec(type)));
    expect_same_ids(*open_saved(folder.string()));
  }
}

TEST(SaveTokenizer, WritesNoTokenizerJsonThatWouldGiveDifferentIds) {
  // "\r\n" is one grapheme for `tokenizers`, which applies this model's rule for "\r" and drops the rest.
  EXPECT_EQ(open_saved(kGoldenFolder + "bpe")->tokenizer_json(), "");
  TempFolder folder;
  constexpr uint32_t kTrainerSpec = 2, kWhitespaceAsSuffix = 24;
  folder.write("spiece.model", small_model(bytes_field(kTrainerSpec, number_field(kWhitespaceAsSuffix, 1))));
  auto tokenizer = open_saved(folder.string());
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(tokenizer->tokenizer_json(), "");
  contains(::testing::internal::GetCapturedStderr(), "spiece.model: no tokenizer.json is written next to it");
  TempFolder saved;
  save_tokenizer(*tokenizer, "", saved.string());
  EXPECT_TRUE(std::filesystem::exists(saved / "spiece.model"));
  EXPECT_FALSE(std::filesystem::exists(saved / "tokenizer.json"));
}

TEST(SaveTokenizer, SetsTheClassThatReadsTokenizerJsonUnchanged) {
  TempFolder folder, saved;
  folder.write("tokenizer.json", read_all(kGoldenFolder + "json/llama2/tokenizer.json"));
  const auto class_after = [&](const std::string& config) {
    folder.write("tokenizer_config.json", config);
    save_tokenizer(*open_saved(folder.string()), "", saved.string());
    return config_in(saved).value("tokenizer_class", "");
  };
  EXPECT_EQ(class_after(R"({"tokenizer_class": "LlamaTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"})"),
            "PreTrainedTokenizerFast");
  EXPECT_EQ(config_in(saved)["padding_side"], "left");
  EXPECT_EQ(config_in(saved)["add_bos_token"], true);
  EXPECT_EQ(config_in(saved)["add_eos_token"], false);
  EXPECT_EQ(class_after(R"({"tokenizer_class": "Qwen2Tokenizer"})"), "Qwen2Tokenizer");
  EXPECT_EQ(read_all(saved / "tokenizer_config.json"), R"({"tokenizer_class": "Qwen2Tokenizer"})");  // unchanged
  EXPECT_EQ(class_after("{}"), "");
}

TEST(SaveTokenizer, PutsChatTemplatesIntoTheConfig) {
  TempFolder folder, saved;
  folder.write("tokenizer.json", read_all(kGoldenFolder + "json/qwen2/tokenizer.json"));
  save_tokenizer(*open_saved(folder.string()), "", saved.string());
  EXPECT_FALSE(std::filesystem::exists(saved / "tokenizer_config.json"));
  save_tokenizer(*open_saved(folder.string()), "R", saved.string());
  EXPECT_EQ(config_in(saved)["chat_template"], "R");

  folder.write("tokenizer_config.json", R"({"chat_template": [{"name": "tool_use", "template": "T"}], "x": 1})");
  folder.write("chat_template.jinja", "J");
  save_tokenizer(*open_saved(folder.string()), "", saved.string());
  EXPECT_EQ(config_in(saved)["x"], 1);
  EXPECT_EQ(*open_saved(saved.string())->chat_template(), "J");
  EXPECT_EQ(*open_saved(saved.string())->chat_template("tool_use"), "T");
  save_tokenizer(*open_saved(folder.string()), "R", saved.string());
  EXPECT_EQ(*open_saved(saved.string())->chat_template(), "R");
  EXPECT_EQ(*open_saved(saved.string())->chat_template("tool_use"), "T");
}

TEST(SaveTokenizer, KeepsTheFilesOfTheBeginning) {
  TempFolder folder;
  const std::string file = read_all(kGoldenFolder + "json/qwen2/tokenizer.json");
  folder.write("tokenizer.json", file);
  folder.write("tokenizer_config.json", "{}");
  const auto tokenizer = open_saved(folder.string());
  const SavedTokenizer saved(*tokenizer, "");
  folder.write("tokenizer.json", "another model's");
  std::filesystem::remove(folder / "tokenizer_config.json");
  ASSERT_EQ(saved.files().size(), 2u);
  for (const TokenizerFile& one : saved.files())
    EXPECT_EQ(one.content, one.name == "tokenizer.json" ? file : "{}") << one.name;
}

}  // namespace
}  // namespace trainer::data
