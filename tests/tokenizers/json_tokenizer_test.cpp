#include "data/tokenizers/json_tokenizer.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "data/json/parse_json.h"
#include "data/tokenizers/text/characters.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "tests/data/support.h"
#include "tests/support/source_dir.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Ids = std::vector<int32_t>;

const fs::path kGolden = source_dir() + "/tests/golden/tokenizer/json";
const fs::path kShared = source_dir() + "/../shared/data";

std::unique_ptr<Tokenizer> open(const fs::path& path) {
  return open_tokenizer({.path = path.string()}, "");
}

/// The number of characters in `text` before byte `place`.
size_t characters(const std::string& text, size_t place) {
  return count_characters(std::string_view(text).substr(0, place));
}

class Family : public ::testing::TestWithParam<const char*> {};

TEST_P(Family, MatchesTheLibrary) {
  auto tokenizer = open(kGolden / GetParam());
  json texts = parse_json(read_file(kGolden / "texts.json"), "texts.json");
  std::ifstream lines(kGolden / GetParam() / "vectors.jsonl");
  for (const json& entry : texts) {
    auto text = entry.get<std::string>();
    std::string line;
    ASSERT_TRUE(std::getline(lines, line));
    json vector = parse_json(line, "vectors.jsonl");
    auto ids = vector["ids"].get<Ids>();
    EXPECT_EQ(tokenizer->encode(text), ids) << text;
    TokenOffsets tokens = tokenizer->encode_with_offsets(text, true);
    EXPECT_EQ(tokens.ids, ids) << text;
    std::vector<size_t> places;
    for (size_t i = 0; i < tokens.ids.size(); ++i) {
      places.push_back(characters(text, tokens.begins[i]));
      places.push_back(characters(text, tokens.ends[i]));
    }
    EXPECT_EQ(places, vector["offsets"].get<std::vector<size_t>>()) << text;
    EXPECT_EQ(tokenizer->decode(ids, false), vector["decoded"].get<std::string>());
    EXPECT_EQ(tokenizer->decode(ids, true), vector.value("plain", vector["decoded"].get<std::string>()));
  }
}

INSTANTIATE_TEST_SUITE_P(JsonTokenizer, Family,
                         ::testing::Values("bert", "gpt2", "llama2", "llama3", "mistral", "pegasus", "qwen2", "roberta",
                                           "stages", "t5"),
                         [](const auto& family) { return std::string(family.param); });

json read_golden(const char* family) {
  return parse_json(read_file(kGolden / family / "tokenizer.json"), "tokenizer.json");
}

std::unique_ptr<Tokenizer> make(const json& root) {
  return make_json_tokenizer(root, "tokenizer.json", {});
}

TEST(JsonTokenizer, AddsSpecialTokensOnRequest) {
  auto tokenizer = open(kGolden / "llama3");
  Ids with = tokenizer->encode("a", true), without = tokenizer->encode("a", false);
  EXPECT_EQ(with.front(), tokenizer->id_of("<|begin_of_text|>"));
  EXPECT_EQ(Ids(with.begin() + 1, with.end()), without);
}

TEST(JsonTokenizer, ReadsInvalidUtf8AsReplacementCharacters) {
  auto tokenizer = open(kGolden / "gpt2");
  const std::pair<std::string, std::string> cases[] = {{"a\xFFz", "a\uFFFDz"},
                                                       {"a\xE2\x82z", "a\uFFFDz"},
                                                       {"\xE2", "\uFFFD"},
                                                       {"\xC0\xAF", "\uFFFD\uFFFD"},
                                                       {"\xED\xA0\x80", "\uFFFD\uFFFD\uFFFD"},
                                                       {"\xF0\x9F\x98", "\uFFFD"},
                                                       {"\xF8\x88", "\uFFFD\uFFFD"}};
  for (const auto& [broken, repaired] : cases) EXPECT_EQ(tokenizer->encode(broken), tokenizer->encode(repaired));
}

TEST(JsonTokenizer, SkipsUnknownIdsInDecoding) {
  auto tokenizer = open(kGolden / "bert");
  EXPECT_EQ(tokenizer->decode(Ids{-1, -100, INT32_MAX, static_cast<int32_t>(tokenizer->size())}, false), "");
}

TEST(JsonTokenizer, ReadsRolesAndTemplatesFromNeighboringFiles) {
  TempFolder folder;
  folder.write("tokenizer.json", read_file(kGolden / "qwen2/tokenizer.json"));
  folder.write("tokenizer_config.json", R"({"eos_token": {"content": "<|im_end|>"}, "pad_token": "<pad>",
      "model_max_length": 1000000000000000019884624838656,
      "chat_template": [{"name": "default", "template": "D"}, {"name": "tool_use", "template": "T"}]})");
  folder.write("special_tokens_map.json", R"({"bos_token": "<|im_start|>", "eos_token": "<|endoftext|>"})");
  auto tokenizer = open(folder.string());
  EXPECT_EQ(tokenizer->eos_id(), tokenizer->id_of("<|im_end|>"));
  EXPECT_EQ(tokenizer->bos_id(), tokenizer->id_of("<|im_start|>"));
  EXPECT_EQ(tokenizer->pad_id(), tokenizer->size() - 1);  // added after all others
  EXPECT_EQ(tokenizer->unk_id(), -1);
  ASSERT_TRUE(tokenizer->chat_template());
  EXPECT_EQ(*tokenizer->chat_template(), "D");
  EXPECT_EQ(*tokenizer->chat_template("tool_use"), "T");
  EXPECT_EQ(tokenizer->chat_template("other"), nullptr);
  EXPECT_EQ(tokenizer->files().size(), 3u);
  folder.write("chat_template.jinja", "J");
  EXPECT_EQ(*open(folder.string())->chat_template(), "J");
}

TEST(JsonTokenizer, ReadsTheEosIdFromTheModelsFiles) {
  TempFolder folder;
  folder.write("tokenizer.json", read_file(kGolden / "gpt2/tokenizer.json"));
  folder.write("config.json", R"({"eos_token_id": 3})");
  EXPECT_EQ(open(folder.string())->eos_id(), 3);
  folder.write("generation_config.json", R"({"eos_token_id": [5, 3]})");
  EXPECT_EQ(open(folder.string())->eos_id(), 5);
}

/// The vocabulary of a golden tokenizer as vocab.json and merges.txt.
void write_vocab_files(const TempFolder& folder, const char* family) {
  json model = read_golden(family)["model"];
  folder.write("vocab.json", model["vocab"].dump());
  std::string merges = "#version: 0.2\n";
  for (const json& merge : model["merges"]) {
    merges += merge[0].get<std::string>() + " " + merge[1].get<std::string>() + "\n";
  }
  folder.write("merges.txt", merges);
}

TEST(JsonTokenizer, ReadsVocabularyFilesOfGpt2AndQwen) {
  TempFolder folder;
  write_vocab_files(folder, "gpt2");
  const std::string text = "Sales  rose 1234% \u00e9<|endoftext|>";
  auto gpt2 = open(folder.string());
  EXPECT_EQ(gpt2->encode(text), open(kGolden / "gpt2")->encode(text));
  EXPECT_EQ(gpt2->eos_id(), gpt2->size() - 1);
  write_vocab_files(folder, "qwen2");
  folder.write("tokenizer_config.json", R"({"tokenizer_class": "Qwen2Tokenizer", "added_tokens_decoder": {
      "382": {"content": "<|im_end|>", "special": true}, "381": {"content": "<|im_start|>", "special": true}}})");
  const std::string chat = "<|im_start|>It's cafe\u0301 1234\n\n  x<|im_end|><|endoftext|>";
  EXPECT_EQ(open(folder.string())->encode(chat), open(kGolden / "qwen2")->encode(chat));
}

TEST(JsonTokenizer, ReadsVocabularyFilesOfBert) {
  json root = read_golden("bert");
  std::vector<std::string> pieces(root["model"]["vocab"].size());
  for (const auto& [piece, id] : root["model"]["vocab"].items()) pieces[id.get<size_t>()] = piece;
  TempFolder folder;
  folder.write("vocab.txt", fmt::format("{}\n", fmt::join(pieces, "\n")));
  const std::string text = "Sales at the CAF\u00c9 [MASK], rose!";
  auto bert = open(folder.string());
  EXPECT_EQ(bert->encode(text), open(kGolden / "bert")->encode(text));
  EXPECT_EQ(bert->pad_id(), 0);
  EXPECT_EQ(bert->unk_id(), 1);
  folder.write("tokenizer_config.json", R"({"do_lower_case": false})");
  EXPECT_NE(open(folder.string())->encode(text), bert->encode(text));
}

TEST(JsonTokenizer, PrefersTokenizerJson) {
  TempFolder folder;
  folder.write("tokenizer.json", read_file(kGolden / "bert/tokenizer.json"));
  folder.write("spiece.model", "no model");
  folder.write("vocab.json", "no vocabulary");
  EXPECT_EQ(open(folder.string())->size(), open(kGolden / "bert")->size());
}

/// The error message for `root`; "" when it is accepted.
std::string refusal(const json& root) {
  try {
    make(root);
    return "";
  } catch (const InputError& error) {
    return error.what();
  }
}

struct BadCase {
  const char* family;
  const char* pointer;  // the value to replace
  const char* value;    // its replacement
  const char* message;  // a part of the error message
};

const BadCase kBad[] = {
    {"bert", "/model/type", R"("Trie")",
     R"(model.type: "Trie" is not supported; supported are BPE, Unigram, WordPiece)"},
    {"bert", "/normalizer/type", R"("Foo")", R"(normalizer.type: "Foo" is not supported; supported are NFC)"},
    {"bert", "/normalizer/lowercase", "1", "normalizer.lowercase: expected true or false, found type number"},
    {"bert", "/pre_tokenizer/type", "null", "pre_tokenizer.type: missing; expected a string"},
    {"bert", "/decoder/type", R"("CTC")", R"(decoder.type: "CTC" is not supported)"},
    {"bert", "/model/vocab/[UNK]", "-1", R"(model.vocab: "[UNK]" has the id -1; expected an id from 0)"},
    {"bert", "/model/vocab/[UNK]", "99999999999", R"(model.vocab: "[UNK]" has the id 99999999999)"},
    {"bert", "/model/vocab", "[]", "model.vocab: expected an object that maps pieces to ids"},
    {"bert", "/model", "3", "model: expected an object"},
    {"bert", "/added_tokens/0/id", "-5", "added_tokens[0].id: expected an integer from 0"},
    {"bert", "/added_tokens/0/content", "7", "added_tokens[0].content: expected a string, found type number"},
    {"bert", "/post_processor/single", "[]", "post_processor.single: no sequence A"},
    {"bert", "/post_processor/special_tokens", "{}", R"("[CLS]" is not among the special_tokens)"},
    {"gpt2", "/model/merges/3", R"("abc")", "model.merges: merge 3 is not a pair of pieces"},
    {"gpt2", "/model/merges/3", R"(["nope", "x"])", "nope"},
    {"gpt2", "/model/dropout", "0.1", "model.dropout: BPE dropout"},
    {"llama3", "/pre_tokenizer/pretokenizers/0/pattern/Regex", R"("a(b")", "invalid after `a(b`"},
    {"llama3", "/pre_tokenizer/pretokenizers/0/pattern/Regex", R"("[a&&[b]]")", "an intersection `&&` of sets"},
    {"llama3", "/pre_tokenizer/pretokenizers/0/pattern", "{}", "pre_tokenizer.pretokenizers[0].pattern.Regex: missing"},
    {"llama3", "/pre_tokenizer/pretokenizers/0/behavior", R"("Joined")", R"("Joined" is not supported; supported are)"},
    {"t5", "/normalizer/precompiled_charsmap", R"("AAAA")",
     "precompiled_charsmap: its normalization table is truncated"},
    {"t5", "/normalizer/precompiled_charsmap", R"("?")", "precompiled_charsmap: expected base64"},
    {"t5", "/model/vocab/1", R"(["a", "b"])", "model.vocab: entry 1 is not a piece and its score"},
    {"t5", "/model/unk_id", "100000", "model.unk_id: expected an integer from 0"},
};

TEST(JsonTokenizer, RejectsBadFilesWithTheValuesPath) {
  for (const BadCase& bad : kBad) {
    json root = read_golden(bad.family);
    json::json_pointer pointer(bad.pointer);
    ASSERT_TRUE(root.contains(pointer)) << bad.pointer;
    ASSERT_EQ(refusal(root), "") << bad.family;
    root[pointer] = json::parse(bad.value);
    std::string message = refusal(root);
    EXPECT_NE(message.find(bad.message), std::string::npos) << bad.pointer << ": " << message;
    EXPECT_TRUE(message.starts_with("tokenizer.json: ")) << message;
  }
}

TEST(JsonTokenizer, ReportsSeveralProblemsAtOnce) {
  json root = read_golden("bert");
  for (const char* key : {"normalizer", "pre_tokenizer", "post_processor", "decoder"}) root[key]["type"] = "Foo";
  root["model"]["vocab"] = 3;
  std::string message = refusal(root);
  EXPECT_NE(message.find("normalizer.type"), std::string::npos);
  EXPECT_NE(message.find("decoder.type"), std::string::npos);
  EXPECT_NE(message.find("and 1 more."), std::string::npos) << message;
}

TEST(JsonTokenizer, RejectsATruncatedFile) {
  TempFolder folder;
  std::string whole = read_file(kGolden / "gpt2/tokenizer.json");
  for (size_t size : {size_t{0}, size_t{1}, whole.size() / 2, whole.size() - 2}) {
    folder.write("tokenizer.json", whole.substr(0, size));
    EXPECT_THROW(open(folder.string()), InputError) << size;
  }
}

TEST(JsonTokenizer, StopsAnExpressionThatTakesForever) {
  json root = read_golden("llama3");
  root["/pre_tokenizer/pretokenizers/0/pattern/Regex"_json_pointer] = "(?:a|aa)+[bc]";
  auto tokenizer = make(root);
  EXPECT_THROW(tokenizer->encode(std::string(5000, 'a')), InputError);
}

/// The parts into which `expression` splits `text`.
std::vector<std::string> split(const std::string& expression, const std::string& text) {
  json root = read_golden("gpt2");
  root["pre_tokenizer"] = {
      {"type", "Split"}, {"pattern", {{"Regex", expression}}}, {"behavior", "Removed"}, {"invert", true}};
  root["model"] = {{"type", "WordLevel"}, {"unk_token", "?"}, {"vocab", {{"?", 0}}}};
  root["added_tokens"] = json::array();
  root["post_processor"] = nullptr;
  TokenOffsets tokens = make(root)->encode_with_offsets(text, false);
  std::vector<std::string> parts;
  for (size_t i = 0; i < tokens.ids.size(); ++i) {
    parts.push_back(text.substr(tokens.begins[i], tokens.ends[i] - tokens.begins[i]));
  }
  return parts;
}

TEST(JsonTokenizer, ReadsExpressionsAsOniguruma) {
  using Parts = std::vector<std::string>;
  EXPECT_EQ(split("[0-9]{1,3}+", "12345"), Parts({"12345"}));  // repeats, is not possessive
  EXPECT_EQ(split("(?:ab){,2}c", "ababc"), Parts({"ababc"}));
  EXPECT_EQ(split("\\h+", "xyzFace12 "), Parts({"Face12"}));  // hexadecimal digits
  EXPECT_EQ(split("\\S+", "a\u180eb c"), Parts({"a\u180eb", "c"}));
  EXPECT_EQ(split("[\\s]+", "a\u3000\u0085b"), Parts({"\u3000\u0085"}));
  EXPECT_EQ(split("\\w+", "a_\u0301\u00b2-b"), Parts({"a_\u0301\u00b2", "b"}));
  EXPECT_EQ(split("^a.|.b$", "ax\nay\nzb"), Parts({"ax", "ay", "zb"}));
}

/// Each attempt stays below the limit of steps, and there is one for each character.
TEST(JsonTokenizer, StopsAnExpressionThatTakesLongAtEveryCharacter) {
  json root = read_golden("llama3");
  root["/pre_tokenizer/pretokenizers/0/pattern/Regex"_json_pointer] = "(?:a|aa|aaa){1,17}[bc]";
  auto tokenizer = make(root);
  EXPECT_THROW(tokenizer->encode(std::string(200'000, 'a')), InputError);
}

TEST(JsonTokenizer, FindsWhatBeginsFarInTheText) {
  EXPECT_EQ(split("x", std::string(100'000, '-') + "x" + std::string(100'000, '-')), std::vector<std::string>{"x"});
  EXPECT_EQ(split("(?<=ü)x$", std::string(16'383, '-') + "üx"), std::vector<std::string>{"x"});  // in a second window
}

TEST(JsonTokenizer, RefusesANormalizerThatGrowsWithoutEnd) {
  json root = read_golden("gpt2");
  const json replace = {{"type", "Replace"}, {"pattern", {{"Regex", "."}}}, {"content", std::string(20, 'x')}};
  const json prepend = {{"type", "Prepend"}, {"prepend", std::string(2 << 20, 'x')}};
  const json ligatures = {{"type", "Replace"}, {"pattern", {{"Regex", "."}}}, {"content", "\ufdfa"}};
  const json decompose = {{"type", "NFKD"}};
  const json keep = {{"type", "Replace"}, {"pattern", {{"String", "l"}}}, {"content", "l"}};
  for (const std::vector<json>& chain :
       {std::vector<json>(7, replace), std::vector<json>{prepend},
        std::vector<json>{ligatures, decompose, ligatures, decompose, ligatures, decompose, ligatures, decompose},
        std::vector<json>(20'000, keep)}) {
    root["normalizer"] = {{"type", "Sequence"}, {"normalizers", chain}};
    try {
      make(root)->encode(std::string(1000, 'l'));
      FAIL() << "it was encoded: " << chain.front().dump().substr(0, 80);
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find("makes more than"), std::string::npos) << error.what();
    }
  }
  root["normalizer"] = {{"type", "NFKD"}};
  EXPECT_GT(make(root)->encode(std::string(1000, ' ') + "\ufdfa").size(), 10U);  // 18 characters of one
}

TEST(JsonTokenizer, EncodesLongWordsInLinearTime) {
  auto tokenizer = open(kGolden / "gpt2");
  std::string word(1 << 20, 'x');
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(word)), word);
}

TEST(JsonTokenizer, RejectsBadVocabularyFiles) {
  TempFolder folder;
  folder.write("vocab.json", R"({"a": 0})");
  EXPECT_THROW(open(folder.string()), InputError);  // without merges
  folder.write("merges.txt", "#version: 0.2\na b c\n");
  EXPECT_THROW(open(folder.string()), InputError);
  folder.write("merges.txt", "#version: 0.2\na b\n");
  EXPECT_THROW(open(folder.string()), InputError);  // unknown pieces
  write_vocab_files(folder, "gpt2");
  folder.write("tokenizer_config.json", R"({"tokenizer_class": "CLIPTokenizer"})");
  std::string message = error_of<InputError>([&] { open(folder.string()); });
  EXPECT_NE(message.find("tokenizer_class CLIPTokenizer"), std::string::npos) << message;
}

TEST(JsonTokenizer, ReadsTheSharedTokenizers) {
  if (!fs::exists(kShared)) GTEST_SKIP() << "../shared/data does not exist next to the repository";
  // The results of `tokenizers`.
  auto gpt2 = open(kShared / "gpt2_bpe");
  EXPECT_EQ(gpt2->size(), 50257);
  EXPECT_EQ(gpt2->encode("Hello world, it's 2024!\n\n  caf\u00e9 \U0001f6a2<|endoftext|>"),
            (Ids{15496, 995, 11, 340, 338, 48609, 0, 628, 220, 40304, 12520, 248, 95, 50256}));
  auto unigram = open(kShared / "unigram_tokenizer");
  EXPECT_EQ(unigram->size(), 96103);
  EXPECT_EQ(unigram->encode("Hello  world, it\u2019s \u216b \uff21\ufb01! <mask_1>"),
            (Ids{8087, 278, 108, 126, 123, 116, 48882, 202, 5138, 147, 2, 1}));
  auto bpe = open(kShared / "bpe_sentencepiece");
  TokenOffsets tokens = bpe->encode_with_offsets("hello <extra_id_0> world");
  EXPECT_EQ(tokens.ids, (Ids{8974, 31073, 32099, 1121, 32100}));
  EXPECT_EQ(tokens.begins, (std::vector<size_t>{0, 4, 6, 19, 24}));
  EXPECT_EQ(tokens.ends, (std::vector<size_t>{4, 5, 18, 24, 24}));
}

}  // namespace
}  // namespace trainer::data
