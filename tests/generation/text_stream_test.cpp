// The text of a reply while its tokens arrive, and the defaults of a model.
#include <gtest/gtest.h>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/base/utf8.h"
#include "engine/generation/defaults.h"
#include "engine/generation/text_stream.h"
#include "tests/data/byte_tokenizer.h"
#include "tests/support/temporary_folder.h"

namespace trainer::generation {
namespace {

/// A token is a byte; bytes that are no character yet are U+FFFD, as in the tokenizers of models.
class Bytes : public data::ByteTokenizer {
 public:
  std::string decode(std::span<const int32_t> ids, bool skip_special) const override {
    std::string text = ByteTokenizer::decode(ids, skip_special);
    if (const size_t bad = find_invalid_utf8(text); bad != std::string::npos) text = text.substr(0, bad) + "\uFFFD";
    return text;
  }
};

/// What is shown after each byte of `text`, separated by bars; then, after two bars, what is left at the end.
std::string shown(const std::string& text, const std::vector<std::string>& stops = {}, const std::string& before = "") {
  const Bytes tokenizer;
  TextStream stream(tokenizer, tokenizer.encode(before, false), stops);
  std::string all;
  for (const char byte : text) {
    if (stream.stopped()) return all + "stopped";
    all += stream.add(static_cast<unsigned char>(byte)) + "|";
  }
  return all + "|" + stream.finish();
}

TEST(TextStream, ShowsEachCharacterWhenItIsComplete) {
  EXPECT_EQ(shown("ab"), "a|b||");
  EXPECT_EQ(shown("a\u00E9\u20ACb"), "a||\u00E9|||\u20AC|b||");
  EXPECT_EQ(shown("\xE2\x82"), "|||\uFFFD") << "a character that stays incomplete";
}

TEST(TextStream, DoesNotShowWhatItContinues) {
  EXPECT_EQ(shown("bc", {}, "a"), "b|c||");
}

TEST(TextStream, EndsBeforeAStop) {
  EXPECT_EQ(shown("one. two", {". "}), "o|n|e|||stopped");
  EXPECT_EQ(shown("a.b", {". "}), "a||.b||") << "only the beginning of a stop";
  EXPECT_EQ(shown("a.", {". "}), "a|||.");
  EXPECT_EQ(shown("xENDy", {"END", "E!"}),
            "x|||"
            "|stopped");
}

class Defaults : public ::testing::Test {
 protected:
  evaluation::Generation with(const std::string& file, const config::GenerateRequest& asked = {}) {
    publish_file(folder_.path() / "generation_config.json", file);
    return generation_for(folder_.path(), asked);
  }
  const testing::TemporaryFolder folder_;
};

TEST_F(Defaults, WithoutAFileTheLikeliestTokenIsChosen) {
  const auto made = generation_for(folder_.path(), {});
  EXPECT_EQ(made.sampling.temperature, 0);
  EXPECT_EQ(made.max_new_tokens, 256);
  EXPECT_TRUE(made.end_tokens.empty());
}

TEST_F(Defaults, AreTheModelsUnlessAsked) {
  const std::string file =
      R"({"do_sample": true, "temperature": 0.6, "top_k": 40, "top_p": 0.9, "eos_token_id": [2, 7]})";
  auto made = with(file);
  EXPECT_EQ(made.sampling.temperature, 0.6);
  EXPECT_EQ(made.sampling.top_k, 40);
  EXPECT_EQ(made.sampling.top_p, 0.9);
  EXPECT_EQ(made.end_tokens, (std::vector<int64_t>{2, 7}));
  config::GenerateRequest asked;
  asked.temperature = 1.5;
  asked.top_k = 3;
  made = with(file, asked);
  EXPECT_EQ(made.sampling.temperature, 1.5);
  EXPECT_EQ(made.sampling.top_k, 3);
  EXPECT_EQ(made.sampling.top_p, 0.9);
  asked.temperature = 0;
  EXPECT_EQ(with(file, asked).sampling.temperature, 0);
}

TEST_F(Defaults, WithoutDoSampleTheOtherValuesHaveNoEffect) {
  EXPECT_EQ(with(R"({"temperature": 0.6, "top_k": 40, "eos_token_id": 5})").sampling.temperature, 0);
  EXPECT_EQ(with(R"({"temperature": 0.6, "eos_token_id": 5})").end_tokens, std::vector<int64_t>{5});
}

TEST_F(Defaults, ValuesOutOfRangeAreRefused) {
  for (const char* const file : {"[]", "{", R"({"do_sample": true, "top_p": 2})", R"({"max_new_tokens": "many"})",
                                 R"({"repetition_penalty": 0})"})
    EXPECT_THROW(with(file), InputError) << file;
}

TEST(GenerateRequest, SurvivesTheWayToTheWorker) {
  config::GenerateRequest request;
  request.model = "m";
  request.prompt = "a \"text\"\n\u20AC";
  request.has_prompt = true;
  request.stop = {"a", "b"};
  request.top_k = 0;
  request.seed = ~uint64_t{0};
  const config::GenerateRequest read = config::generate_request(config::to_json(request));
  EXPECT_EQ(config::to_json(read), config::to_json(request));
  EXPECT_EQ(read.top_k, 0);
  EXPECT_FALSE(read.temperature);
  EXPECT_EQ(read.seed, request.seed);
}

}  // namespace
}  // namespace trainer::generation
