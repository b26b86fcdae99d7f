#include "data/tokenizers/tokenizer.h"

#include <nlohmann/json.hpp>

#include <gtest/gtest.h>

#include "tests/data/model_maker.h"
#include "tests/data/support.h"
#include "tests/support/source_dir.h"

namespace trainer::data {
namespace {

using Ids = std::vector<int32_t>;

const std::string kGolden = source_dir() + "/tests/golden/tokenizer/";

std::unique_ptr<Tokenizer> open(const std::string& path) {
  return open_tokenizer({.path = path}, "");
}

void compare_with_vectors(const std::string& folder) {
  auto tokenizer = open(folder);
  std::ifstream lines(folder + "/vectors.jsonl");
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    auto vector = nlohmann::json::parse(line);
    auto text = vector["text"].get<std::string>();
    EXPECT_EQ(tokenizer->encode(text), vector["ids"].get<Ids>()) << text;
    EXPECT_EQ(tokenizer->decode(vector["ids"].get<Ids>()), vector["decoded"].get<std::string>()) << text;
  }
  EXPECT_GE(count, 15);
}

TEST(Tokenizer, MatchesTheReferenceForUnigram) {
  compare_with_vectors(kGolden + "unigram");
}

TEST(Tokenizer, MatchesTheReferenceForBpe) {
  compare_with_vectors(kGolden + "bpe");
}

TEST(Tokenizer, MapsPiecesAndIds) {
  auto tokenizer = open(kGolden + "unigram");
  EXPECT_EQ(tokenizer->size(), 340);
  EXPECT_EQ(tokenizer->pad_id(), 0);
  EXPECT_EQ(tokenizer->eos_id(), 1);
  EXPECT_EQ(tokenizer->unk_id(), 2);
  EXPECT_EQ(tokenizer->id_of("<extra_id_0>"), 339);
  EXPECT_EQ(tokenizer->id_of("<extra_id_99>"), 240);
  EXPECT_EQ(tokenizer->id_of("</s>"), 1);
  EXPECT_EQ(tokenizer->id_of("<unk>"), 2);
  EXPECT_EQ(tokenizer->id_of("no such piece"), std::nullopt);
  for (int32_t id = 0; id < tokenizer->size(); ++id) EXPECT_EQ(tokenizer->id_of(tokenizer->piece_of(id)), id);
  EXPECT_EQ(tokenizer->encode("", false), Ids{});
}

TEST(Tokenizer, DecodesWithSpecialTokens) {
  auto tokenizer = open(kGolden + "unigram");
  Ids ids = tokenizer->encode("the <extra_id_0> ship");
  EXPECT_EQ(tokenizer->decode(ids, false), "the<extra_id_0> ship</s>");
  EXPECT_EQ(tokenizer->decode(ids, true), "the ship");
  EXPECT_EQ(tokenizer->decode(Ids{-100, 340, INT32_MAX, INT32_MIN, 1}, true),
            "");  // a model's embedding may have more rows
}

TEST(Tokenizer, CountsExtraIdsAsConfigured) {
  TempFolder folder;
  folder.write("spiece.model", small_model());
  EXPECT_EQ(open(folder.string())->size(), 107);  // only the file name identifies T5: its defaults apply
  folder.write("config.json", R"({"model_type": "albert"})");
  EXPECT_EQ(open(folder.string())->size(), 7);
  folder.write("config.json", R"({"model_type": "t5"})");
  EXPECT_EQ(open(folder.string())->size(), 107);
  folder.write(
      "tokenizer_config.json",
      R"({"tokenizer_class": "T5TokenizerFast", "extra_ids": 3, "model_max_length": 1000000000000000019884624838656})");
  EXPECT_EQ(open(folder.string())->id_of("<extra_id_2>"), 7);
  EXPECT_EQ(open(folder.string())->size(), 10);
}

TEST(Tokenizer, ReadsAddedTokens) {
  TempFolder folder;
  folder.write("spiece.model", small_model());
  folder.write("tokenizer_config.json", R"({"extra_ids": 0, "eos_token": {"content": "</s>"},
      "added_tokens_decoder": {"9": {"content": "<sep>", "lstrip": false, "rstrip": true, "special": true}}})");
  auto tokenizer = open(folder.string());
  EXPECT_EQ(tokenizer->size(), 10);
  EXPECT_EQ(tokenizer->encode("a<sep> b"), (Ids{3, 4, 9, 3, 5, 1}));
  EXPECT_EQ(tokenizer->piece_of(8), "");  // a gap
  EXPECT_EQ(tokenizer->decode(Ids{8, 4}), "a");
}

TEST(Tokenizer, RejectsBrokenSettings) {
  TempFolder folder;
  folder.write("spiece.model", small_model());
  auto fail = [&](const std::string& config) {
    folder.write("tokenizer_config.json", config);
    return error_of<InputError>([&] { open(folder.string()); });
  };
  contains(fail("{\n\"extra_ids\": }"), "tokenizer_config.json:2:14: not valid JSON");
  contains(fail("[]"), "expected a JSON object");
  contains(fail(R"({"extra_ids": -1})"), "extra_ids is -1");
  contains(fail(R"({"extra_ids": 18446744073709551615})"), "extra_ids is 18446744073709551615");
  contains(fail(R"({"added_tokens_decoder": {"99999999999": {"content": "x"}}})"), "isn't a token");
}

TEST(Tokenizer, ReportsMissingFiles) {
  TempFolder folder;
  auto fail = [&] { return error_of<InputError>([&] { open_tokenizer({}, folder.string()); }); };
  contains(fail(), "it has nothing.");
  folder.write("config.json", "{}");
  contains(fail(), "it has config.json.");
  folder.write("tokenizer.json", "{}");
  contains(fail(), "not a usable tokenizer");
  contains(error_of<InputError>([] { open("/no/such/folder"); }), "no such folder");
  contains(error_of<ConfigError>([] { open(""); }), "tokenizer.path");
}

TEST(Tokenizer, MustNotHaveMoreIdsThanTheEmbedding) {
  auto tokenizer = open(kGolden + "bpe");
  check_fits(*tokenizer, tokenizer->size());
  std::string message = error_of<InputError>([&] { check_fits(*tokenizer, tokenizer->size() - 1); });
  contains(message, std::to_string(tokenizer->size()) + " ids");
  contains(message, std::to_string(tokenizer->size() - 1) + " rows");
}

TEST(Tokenizer, PrependsBosForLlama) {
  TempFolder folder;
  folder.write("tokenizer.model", piece("<unk>", 0, 2) + piece("<s>", 0, 3) + piece("</s>", 0, 3) +
                                      piece("\u2581", -3, 1) + piece("a", -2, 1) + piece("\u2581a", -1, 1));
  auto legacy = open(folder.string());
  EXPECT_EQ(legacy->bos_id(), 1);
  EXPECT_EQ(legacy->encode("a</s>a"), (Ids{1, 5, 2, 5}));
  EXPECT_EQ(legacy->encode("a", false), (Ids{5}));
  folder.write("tokenizer_config.json", R"({"legacy": false, "add_bos_token": false, "add_eos_token": true})");
  auto other = open(folder.string());
  EXPECT_EQ(other->encode("a</s>a a"), (Ids{5, 2, 4, 5, 2}));
  TokenOffsets tokens = other->encode_with_offsets("a</s>a a");
  EXPECT_EQ(tokens.ids, (Ids{5, 2, 4, 5, 2}));
  EXPECT_EQ(tokens.begins, (std::vector<size_t>{0, 1, 5, 6, 8}));
  EXPECT_EQ(tokens.ends, (std::vector<size_t>{1, 5, 6, 8, 8}));
}

/// LLaMA's three special tokens, and the characters of "<unk>" with pieces that cross its end.
std::string model_with_merges_over_brackets() {
  std::string model = piece("<unk>", 0, 2) + piece("<s>", 0, 3) + piece("</s>", 0, 3) + piece("\u2581", -9, 1);
  for (const char* text : {"<", "u", "n", "k", ">", "[", "I", "/"}) model += piece(text, -8, 1);
  return model + piece(">[", -1, 1) + piece("></", -1, 1) + piece("</", -2, 1);
}

TEST(Tokenizer, KeepsTextAfterASpecialTokenThatMergesWithBrackets) {
  TempFolder folder;
  folder.write("tokenizer_config.json", R"({"legacy": false, "add_bos_token": false})");
  for (uint64_t type : {1, 2}) {
    folder.write("tokenizer.model", model_with_merges_over_brackets() + trainer_spec(type));
    auto tokenizer = open(folder.string());
    EXPECT_EQ(tokenizer->encode("<s>[I"), (Ids{1, 9, 10}));
    EXPECT_EQ(tokenizer->encode("[I</s></"), (Ids{3, 9, 10, 2, 14}));
    EXPECT_EQ(tokenizer->encode("</s> ["), (Ids{2, 3, 9}));
    EXPECT_EQ(tokenizer->encode("<s>\u00e9\u00e9["), (Ids{1, 0, 9}));  // one run of unknown characters
    TokenOffsets tokens = tokenizer->encode_with_offsets("<s>\u00e9\u00e9[", true);
    EXPECT_EQ(tokens.begins, (std::vector<size_t>{0, 3, 7}));
    EXPECT_EQ(tokens.ends, (std::vector<size_t>{3, 7, 8}));
  }
}

TEST(Tokenizer, GivesNoUnknownForCharactersThatNormalizationRemoves) {
  TempFolder folder;
  folder.write("tokenizer_config.json", R"({"legacy": false, "extra_ids": 0})");
  std::vector<uint32_t> units(256, 0x800000FF);  // a table that removes "r": see sentencepiece_check_test.cpp
  units[0] = 1 << 10;
  units[1 ^ 'r'] = static_cast<uint32_t>(1 ^ 'r' ^ 200) << 10 | 0x100 | 'r';
  units[200] = 0x80000000;
  const std::string removes_r = normalizer(units, std::string("\0", 1));
  folder.write("spiece.model", small_model(trainer_spec(1) + removes_r));
  auto tokenizer = open(folder.string());
  EXPECT_EQ(tokenizer->encode("</s>ra", false), (Ids{1, 4}));
  EXPECT_EQ(tokenizer->encode("</s>r", false), (Ids{1}));
}

TEST(Tokenizer, StripsEveryWhiteSpaceAroundSpecialTokens) {
  TempFolder folder;
  folder.write("spiece.model", small_model());
  auto tokenizer = open(folder.string());  // T5's extra ids strip both sides
  EXPECT_EQ(tokenizer->encode("a\u00a0\u2003<extra_id_0>\u3000b"), tokenizer->encode("a<extra_id_0>b"));
}

TEST(Tokenizer, ReadsALargeBpeModel) {
  std::string folder = source_dir() + "/../shared/data/bpe_sentencepiece";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " does not exist";
  auto tokenizer = open(folder);
  // It has no </s>: transformers' T5Tokenizer adds one after the extra ids.
  EXPECT_EQ(tokenizer->size(), 32101);
  EXPECT_EQ(tokenizer->encode("hello <extra_id_0> world"), (Ids{8974, 31073, 32099, 1121, 32100}));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("hello world")), "hello world");
}

}  // namespace
}  // namespace trainer::data
