// Mutated tokenizer files are accepted or rejected with an InputError, without a crash. The mutations are fixed.
// tests/fuzz/records_fuzzer.cpp fuzzes the record readers.
#include <random>

#include <gtest/gtest.h>

#include "data/tokenizers/tokenizer.h"
#include "tests/data/model_maker.h"
#include "tests/data/support.h"
#include "tests/support/source_dir.h"

namespace trainer::data {
namespace {

using namespace std::string_view_literals;

/// Mutates bytes of a text at random positions.
class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  uint64_t below(uint64_t bound) { return random_() % bound; }

  std::string mutate(std::string text, size_t begin = 0, size_t end = std::string::npos) {
    end = std::min(end, text.size());
    for (uint64_t changes = 1 + below(4); changes > 0 && begin < end; --changes) {
      change(text, begin + below(end - begin));
      end = std::min(end, text.size());
    }
    return text;
  }

  /// Mutates bytes in place.
  std::string flip(std::string text, size_t begin, size_t end) {
    for (uint64_t changes = 1 + below(4); changes > 0; --changes) {
      size_t at = begin + below(end - begin);
      text[at] = below(2) ? static_cast<char>(random_()) : static_cast<char>(text[at] ^ (1 << below(8)));
    }
    return text;
  }

 private:
  void change(std::string& text, size_t at) {
    static constexpr std::string_view kTricky("\"'{}[],:\\@\r\n\t\0\xff\xc3\xef\x80\x7f-e0"sv);
    switch (below(7)) {
      case 0:
        text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
        break;
      case 1:
        text[at] = kTricky[below(kTricky.size())];
        break;
      case 2:
        text.insert(at, 1, kTricky[below(kTricky.size())]);
        break;
      case 3:
        text.erase(at, 1 + below(4));
        break;
      case 4:
        text.resize(at + 1);
        break;
      case 5:
        text.insert(at, text.substr(below(text.size()), below(20)));
        break;
      case 6:
        text[at] = static_cast<char>(random_());
        break;
    }
  }

  std::mt19937_64 random_;
};

/// Opens a tokenizer file and uses it if it is accepted.
bool try_tokenizer(const TempFolder& folder, const std::string& model, const std::string& config) {
  folder.write("spiece.model", model);
  folder.write("tokenizer_config.json", config);
  try {
    auto tokenizer = open_tokenizer({.path = folder.string()}, "");
    for (const char* text :
         {"", "Leaks at the ferry", "caf\u00e9 \ufb01 \u65e5\u672c <extra_id_0></s>", "\xff\xc3 aaaaaaaaaaaaaaaa"}) {
      auto ids = tokenizer->encode(text);
      for (int32_t id : ids) EXPECT_TRUE(id >= 0 && id < tokenizer->size());
      tokenizer->decode(ids, false);
    }
    return true;
  } catch (const InputError&) {
    return false;
  }
}

std::string golden_model() {
  return read_all(source_dir() + "/tests/golden/tokenizer/bpe/spiece.model");
}

TEST(Fuzz, SentencePieceModels) {
  TempFolder folder;
  Mutator mutator(11);
  const std::string small = small_model(trainer_spec(1)), large = golden_model();
  int good = 0;
  for (int i = 0; i < 3000; ++i) {
    const std::string& model = i % 3 == 0 ? large : small;
    good += try_tokenizer(folder, mutator.mutate(model), R"({"extra_ids": 2})");
  }
  EXPECT_GT(good, 100);
  EXPECT_LT(good, 3000);
}

TEST(Fuzz, NormalizationTables) {
  TempFolder folder;
  Mutator mutator(13);
  std::string model = golden_model();
  std::string name = "user_defined";  // the normalizer's name precedes its table
  size_t begin = model.find(name);
  ASSERT_NE(begin, std::string::npos);
  begin += name.size() + 3;  // its tag and length
  constexpr size_t kTable = 1045;
  ASSERT_LE(begin + kTable, model.size());
  int good = 0;
  for (int i = 0; i < 2500; ++i) {
    good += try_tokenizer(folder, mutator.flip(model, begin, begin + kTable), R"({"extra_ids": 2})");
  }
  EXPECT_GT(good, 100);
  EXPECT_LT(good, 2500);
}

TEST(Fuzz, TokenizerConfigs) {
  TempFolder folder;
  Mutator mutator(17);
  std::string config = R"({"extra_ids": 3, "eos_token": {"content": "</s>"}, "tokenizer_class": "T5Tokenizer",
      "added_tokens_decoder": {"9": {"content": "<x>", "lstrip": true}}, "pad_token": "<pad>"})";
  int good = 0;
  for (int i = 0; i < 2500; ++i) good += try_tokenizer(folder, small_model(), mutator.mutate(config));
  EXPECT_GT(good, 100);
  EXPECT_LT(good, 2500);
}

}  // namespace
}  // namespace trainer::data
