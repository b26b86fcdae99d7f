#include "data/tokenizers/token_lists.h"

#include <filesystem>
#include <set>

#include <gtest/gtest.h>

#include "data/json/parse_json.h"
#include "data/tokenizers/json_tokenizer.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "tests/data/support.h"
#include "tests/support/source_dir.h"

namespace trainer::data {
namespace {

using nlohmann::json;

const std::filesystem::path kGolden = source_dir() + "/tests/golden/tokenizer/json";

/// The file as parse_json() reads it, but with merges as lists.
json whole(const ParsedTokenizer& parsed) {
  json root = parsed.root;
  root["model"]["vocab"] = json::object();
  for (const auto& [piece, id] : parsed.lists.vocab) root["model"]["vocab"][piece] = id;
  root["model"]["merges"] = json::array();
  for (const auto& [left, right] : parsed.lists.merges) root["model"]["merges"].push_back({left, right});
  return root;
}

json with_merges_as_lists(json root) {
  for (json& merge : root["model"]["merges"]) {
    if (!merge.is_string()) continue;
    const auto parts = split_merge(merge.get<std::string>());
    merge = {parts->first, parts->second};
  }
  return root;
}

TEST(TokenLists, HoldWhatTheWholeFileHolds) {
  std::set<std::string> read;
  for (const auto& entry : std::filesystem::directory_iterator(kGolden)) {
    const auto file = entry.path() / "tokenizer.json";
    if (!std::filesystem::exists(file)) continue;
    const std::string text = read_file(file);
    const auto parsed = parse_bpe_tokenizer(text);
    if (!parsed) continue;
    read.insert(entry.path().filename().string());
    EXPECT_EQ(whole(*parsed), with_merges_as_lists(parse_json(text, "f"))) << file;
  }
  for (const char* family : {"gpt2", "llama2", "llama3", "mistral", "qwen2", "roberta"})
    EXPECT_TRUE(read.contains(family)) << family;
}

TEST(TokenLists, AreReadOnlyFromTheUsualFile) {
  const auto is_usual = [](const std::string& model, const std::string& rest = "") {
    return parse_bpe_tokenizer(R"({"version": "1.0", "model": )" + model + rest + "}").has_value();
  };
  EXPECT_TRUE(is_usual(R"({"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]})"));
  EXPECT_TRUE(is_usual(R"({"merges": [["a", "b"]], "dropout": null, "vocab": {"a": 0}, "type": "BPE"})",
                       R"(, "added_tokens": [{"id": 3, "model": {"vocab": {"x": -1.5}}}])"));
  const char* const others[] = {
      R"({"vocab": {"a": 0}, "merges": []})",
      R"({"type": "WordPiece", "vocab": {"a": 0}, "merges": []})",
      R"({"type": "BPE", "vocab": {"a": 0}})",
      R"({"type": "BPE", "merges": []})",
      R"({"type": "BPE", "vocab": {}, "merges": []})",
      R"({"type": "BPE", "vocab": {"a": -1}, "merges": []})",
      R"({"type": "BPE", "vocab": {"a": 16777216}, "merges": []})",
      R"({"type": "BPE", "vocab": {"a": 1.0}, "merges": []})",
      R"({"type": "BPE", "vocab": {"a": "1"}, "merges": []})",
      R"({"type": "BPE", "vocab": {"a": null}, "merges": []})",
      R"({"type": "BPE", "vocab": {"a": {}}, "merges": []})",
      R"({"type": "BPE", "vocab": {"a": [1]}, "merges": []})",
      R"({"type": "BPE", "vocab": {"a": 0, "merges": ["a b"]}})",
      R"({"type": "BPE", "vocab": {"a": 0, "vocab": {"b": 1}}, "merges": []})",
      R"({"type": "BPE", "vocab": {"a": 0, "type": "x"}, "merges": []})",
      R"({"type": "BPE", "vocab": {"a": 0}, "merges": [["a", "b", ["c"]]]})",
      R"({"type": "BPE", "vocab": {"a": 0}, "merges": [{"vocab": {}}]})",
      R"({"type": "BPE", "vocab": ["a"], "merges": []})",
      R"({"type": "BPE", "vocab": {"a": 0}, "merges": {}})",
      R"({"type": "BPE", "vocab": {"a": 0}, "merges": ["ab"]})",
      R"({"type": "BPE", "vocab": {"a": 0}, "merges": ["a b c"]})",
      R"({"type": "BPE", "vocab": {"a": 0}, "merges": [["a"]]})",
      R"({"type": "BPE", "vocab": {"a": 0}, "merges": [["a", "b", "c"]]})",
      R"({"type": "BPE", "vocab": {"a": 0}, "merges": [["a", 1]]})",
      R"({"type": "BPE", "vocab": {"a": 0}, "merges": [["a", ["b"]]]})",
      R"({"type": "BPE", "vocab": {"a": 0}, "merges": [{}]})",
      R"({"type": "BPE", "vocab": {"a": 0}, "merges": [true]})",
      R"({"type": "BPE", "vocab": {"a": 0}, "vocab": {"b": 1}, "merges": []})",
      R"({"type": "BPE", "vocab": {"a": 0}, "merges": [], "merges": []})",
      R"({"type": "BPE", "vocab": {"a": 0}, "merges": []}, "model": {})",
      R"({"type": "BPE", "vocab": {"a": 0}, "merges": []}, "model": 1)",
      R"({"type": "BPE", "other": {"vocab": {"a": 0}, "merges": []}})",
      R"([{"type": "BPE", "vocab": {"a": 0}, "merges": []}])",
      R"({"type": "BPE", "vocab": {"a": 0}, "merges": [], "x": 1e999})",
      R"({"type": "BPE", "vocab": {"a": 0}, "merges": [}])",
      "7",
  };
  for (const char* other : others) EXPECT_FALSE(is_usual(other)) << other;
  const std::string usual = R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}})";
  EXPECT_TRUE(parse_bpe_tokenizer(usual));
  for (const std::string& other : {usual + "x", "[" + usual + "]", usual.substr(0, usual.size() - 1), std::string()})
    EXPECT_FALSE(parse_bpe_tokenizer(other)) << other;
  const auto nested = [](int levels) {
    return R"({"x": )" + std::string(levels, '[') + std::string(levels, ']') +
           R"(, "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}})";
  };
  EXPECT_TRUE(parse_bpe_tokenizer(nested(63)));
  EXPECT_FALSE(parse_bpe_tokenizer(nested(64)));
}

TEST(TokenLists, OfAFileWithFaultsAreExplainedAsEver) {
  TempFolder folder;
  const auto message = [&](const std::string& model) -> std::string {
    folder.write("tokenizer.json", R"({"model": )" + model + R"(, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": null, "post_processor": null, "decoder": null})");
    try {
      open_tokenizer_json(folder / "tokenizer.json");
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  const std::string same_id = message(R"({"type": "BPE", "vocab": {"a": 0, "b": 0}, "merges": []})");
  EXPECT_NE(same_id.find("The vocabulary gives the id 0 to both"), std::string::npos) << same_id;
  const std::string lost = message(R"({"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": ["a b"]})");
  EXPECT_NE(lost.find("needs the piece 'ab'"), std::string::npos) << lost;
  EXPECT_EQ(message(R"({"type": "BPE", "vocab": {"a": 0, "a": 1}, "merges": []})"), "");  // JSON: the last counts
}

}  // namespace
}  // namespace trainer::data
