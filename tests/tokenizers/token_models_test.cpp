#include "data/tokenizers/models/token_model.h"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "data/tokenizers/models/byte_alphabet.h"
#include "engine/base/errors.h"
#include "tests/support/source_dir.h"

namespace trainer::data {

void PrintTo(const Token& token, std::ostream* out) {
  *out << fmt::format("{}[{}, {})", token.id, token.begin, token.end);
}

namespace {

using nlohmann::json;
using Tokens = std::vector<Token>;

std::string string_or_empty(const json& value) {
  return value.is_null() ? "" : value.get<std::string>();
}

VocabList vocab_of(const json& vocab) {
  VocabList list;
  for (const auto& [piece, id] : vocab.items()) list.emplace_back(piece, id.get<int64_t>());
  return list;
}

std::unique_ptr<TokenModel> bpe_of(const json& options) {
  BpeOptions bpe;
  bpe.vocab = vocab_of(options["vocab"]);
  for (const json& pair : options["merges"]) bpe.merges.emplace_back(pair[0], pair[1]);
  if (!options["unk_token"].is_null()) bpe.unk_token = options["unk_token"].get<std::string>();
  bpe.continuing_subword_prefix = string_or_empty(options["continuing_subword_prefix"]);
  bpe.end_of_word_suffix = string_or_empty(options["end_of_word_suffix"]);
  bpe.fuse_unk = options["fuse_unk"];
  bpe.byte_fallback = options["byte_fallback"];
  bpe.ignore_merges = options["ignore_merges"];
  return make_bpe(std::move(bpe));
}

std::unique_ptr<TokenModel> unigram_of(const json& options) {
  UnigramOptions unigram;
  for (const json& piece : options["vocab"]) unigram.pieces.emplace_back(piece[0], piece[1]);
  if (!options["unk_id"].is_null()) unigram.unk_id = options["unk_id"].get<int64_t>();
  unigram.byte_fallback = options["byte_fallback"];
  return make_unigram(std::move(unigram));
}

std::unique_ptr<TokenModel> model_of(const json& test_case) {
  const json& options = test_case["options"];
  const std::string type = test_case["type"];
  if (type == "BPE") return bpe_of(options);
  if (type == "Unigram") return unigram_of(options);
  if (type == "WordLevel") return make_word_level({vocab_of(options["vocab"]), options["unk_token"]});
  return make_word_piece({vocab_of(options["vocab"]), options["unk_token"], options["continuing_subword_prefix"],
                          options["max_input_chars_per_word"]});
}

/// Nothing when the model rejects the text.
std::optional<Tokens> tokens_of(const TokenModel& model, const std::string& text) {
  Tokens tokens = {{-7, 1, 2}};  // existing tokens must stay
  try {
    model.encode(text, tokens);
  } catch (const InputError&) {
    return std::nullopt;
  }
  EXPECT_EQ(tokens[0], (Token{-7, 1, 2}));
  tokens.erase(tokens.begin());
  return tokens;
}

/// For affixes spelled in byte pieces, the reference counts more bytes than the text has; ours stop at its end.
std::optional<Tokens> expected_tokens(const json& expected, size_t text_size) {
  if (expected.is_null()) return std::nullopt;
  Tokens tokens;
  for (const json& token : expected) {
    auto place = [&](int i) { return static_cast<uint32_t>(std::min(token[i].get<size_t>(), text_size)); };
    tokens.push_back({token[0], place(1), place(2)});
  }
  return tokens;
}

json golden_cases() {
  const char* elsewhere = std::getenv("TOKEN_MODELS_GOLDEN");
  std::ifstream file(elsewhere ? elsewhere : source_dir() + "/tests/golden/tokenizer/token_models.json");
  return json::parse(file);
}

TEST(TokenModels, MatchTheReference) {
  const json cases = golden_cases();
  std::map<std::string, int> compared;
  for (size_t i = 0; i < cases.size(); ++i) {
    auto model = model_of(cases[i]);
    for (int round = 0; round < 2; ++round) {  // the second round finds most words in the cache
      for (const json& pair : cases[i]["texts"]) {
        const std::string text = pair[0];
        ASSERT_EQ(tokens_of(*model, text), expected_tokens(pair[1], text.size())) << "case " << i << ": " << text;
        ++compared[cases[i]["type"]];
      }
    }
  }
  EXPECT_GT(compared["BPE"], 300);
  EXPECT_GT(compared["Unigram"], 300);
  EXPECT_GT(compared["WordPiece"], 90);
}

/// All bytes, and some merges.
BpeOptions byte_level() {
  BpeOptions options;
  const ByteAlphabet& alphabet = ByteAlphabet::instance();
  for (int byte = 0; byte < 256; ++byte) {
    options.vocab.emplace_back(alphabet.spelling(static_cast<unsigned char>(byte)), byte);
  }
  for (std::string_view pair : {" t", "he", "\xC3\xA9", "\n\n", "aa"}) {
    std::string left(alphabet.spelling(static_cast<unsigned char>(pair[0])));
    std::string right(alphabet.spelling(static_cast<unsigned char>(pair[1])));
    options.vocab.emplace_back(left + right, static_cast<int64_t>(options.vocab.size()));
    options.merges.emplace_back(left, right);
  }
  return options;
}

TEST(TokenModels, BytesGiveTheSameTokensAsTheirSpelling) {
  BpeOptions all = byte_level(), whole = byte_level(), some = byte_level();
  whole.ignore_merges = true;
  whole.vocab.emplace_back("\u0120the", 999);
  some.vocab.erase(some.vocab.begin() + 'z');
  some.unk_token = "a";
  for (const BpeOptions& options : {all, whole, some}) {
    auto model = make_bpe(options);
    for (std::string text : {" the", "\xC3\xA9z", "\xFF\x00z \xC3", "aaaaa", "\n\n\n"}) {
      for (int longer = 0; longer < 2; ++longer, text += text + " the" + text + text + text + text + text) {
        Tokens from_bytes, from_text;
        model->encode_bytes(text, from_bytes);
        std::string spelled;
        ByteAlphabet::instance().spell(text, spelled);
        model->encode(spelled, from_text);
        ASSERT_EQ(from_bytes.size(), from_text.size());
        uint32_t end = 0;
        for (size_t i = 0; i < from_bytes.size(); ++i) {
          EXPECT_EQ(from_bytes[i].id, from_text[i].id);
          EXPECT_EQ(from_bytes[i].begin, end);
          end = from_bytes[i].end;
        }
        EXPECT_EQ(end, text.size());
      }
    }
  }
}

TEST(TokenModels, MapPiecesAndIds) {
  auto model = make_word_level({{{"b", 2'000'000'000}, {"a", 0}, {"", 5}}, "a"});
  EXPECT_EQ(model->size(), 3);
  EXPECT_EQ(model->id_of("b"), 2'000'000'000);
  EXPECT_EQ(model->id_of("c"), std::nullopt);
  EXPECT_EQ(model->piece_of(2'000'000'000), "b");
  EXPECT_EQ(model->piece_of(1).data(), nullptr);
  EXPECT_NE(model->piece_of(5).data(), nullptr);
  EXPECT_EQ(model->piece_of(-1).data(), nullptr);
  auto unigram = make_unigram({{{"<unk>", 0}, {"a", -1}}, 0, false});
  EXPECT_EQ(unigram->id_of("a"), 1);
  EXPECT_EQ(unigram->id_of(""), std::nullopt);
  EXPECT_EQ(unigram->piece_of(1), "a");
  EXPECT_EQ(unigram->piece_of(2).data(), nullptr);
}

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

TEST(TokenModels, RejectInconsistentVocabularies) {
  auto bpe = [](VocabList vocab, std::vector<std::pair<std::string, std::string>> merges, std::string prefix = "") {
    return message_of([&] {
      BpeOptions options;
      options.vocab = vocab;
      options.merges = merges;
      options.continuing_subword_prefix = prefix;
      make_bpe(options);
    });
  };
  EXPECT_EQ(bpe({{"a", 0}, {"b", 0}}, {}), "The vocabulary gives the id 0 to both 'a' and 'b'.");
  EXPECT_EQ(bpe({{"a", 0}, {"a", 1}}, {}), "The vocabulary has 'a' twice, with the ids 0 and 1.");
  EXPECT_EQ(bpe({{"a", -1}}, {}), "The vocabulary gives 'a' the id -1; ids must be between 0 and 2147483647.");
  EXPECT_EQ(bpe({{"a", int64_t{1} << 31}}, {}),
            "The vocabulary gives 'a' the id 2147483648; ids must be between 0 and 2147483647.");
  EXPECT_EQ(bpe({{"a", 0}, {"b", 1}}, {{"a", "b"}}),
            "Merge 1 of 'a' and 'b' needs the piece 'ab', which is not in the vocabulary.");
  EXPECT_EQ(bpe({{"a", 0}}, {{"a", "b"}}),
            "Merge 1 of 'a' and 'b' needs the piece 'b', which is not in the vocabulary.");
  EXPECT_EQ(bpe({{"a", 0}, {"b", 1}}, {{"a", "b"}}, "##"),
            "Merge 1 of 'a' and 'b': the second is shorter than continuing_subword_prefix '##'.");
  EXPECT_EQ(message_of([] { make_unigram({{{"a", 0}}, 1, false}); }), "unk_id is 1, but the vocabulary has 1 pieces.");
  EXPECT_EQ(message_of([] {
              make_unigram({{{"a", 0}}, -1, false});
            }),
            "unk_id is -1, but the vocabulary has 1 pieces.");
  EXPECT_EQ(message_of([] {
              make_unigram({{{"a", std::nan("")}}, 0, false});
            }),
            "The score of the piece 'a' is nan; scores must be finite.");
}

/// Merges whose parts or results are empty, equal, or mutual: none may loop or read out of bounds.
TEST(TokenModels, OddMergesTerminate) {
  BpeOptions options;
  options.vocab = {{"", 0}, {"a", 1}, {"aa", 2}};
  options.merges = {{"", ""}, {"", "a"}, {"a", ""}, {"a", "a"}, {"aa", ""}};
  for (std::string prefix : {"", "a"}) {
    options.continuing_subword_prefix = prefix;
    if (!prefix.empty()) options.merges = {{"a", "aa"}, {"", "a"}, {"a", "a"}, {"aa", "a"}};
    auto model = make_bpe(options);
    for (size_t length : {1, 2, 3, 39, 40, 41, 1000}) {
      Tokens tokens;
      model->encode(std::string(length, 'a'), tokens);
      EXPECT_LE(tokens.size(), length);
    }
  }
}

TEST(TokenModels, BrokenTextIsNotReadPastItsEnd) {
  auto bpe = make_bpe(byte_level());
  auto unigram = make_unigram({{{"<unk>", 0}, {"a", -1}, {"\xC3", -1}}, 0, false});
  auto word_piece = make_word_piece({{{"[UNK]", 0}, {"a", 1}, {"##\xC3", 2}}, "[UNK]", "##", 100});
  for (std::string text : {"\xC3", "a\xC3", "\xF0\x9F", "\xFF\xFE", "a\x80\x80", "\xF0\x9F\x98"}) {
    text.shrink_to_fit();
    for (const TokenModel* model : {bpe.get(), unigram.get(), word_piece.get()}) {
      Tokens tokens;
      model->encode(text, tokens);
      for (const Token& token : tokens) EXPECT_LE(token.end, text.size());
    }
  }
}

}  // namespace
}  // namespace trainer::data
