// Pairs of replies as samples: two documents, of which the replies are learned.
#include <gtest/gtest.h>

#include "data/cache/prepare.h"
#include "data/samples/token_samples.h"
#include "tests/chat/special_tokenizer.h"
#include "tests/data/byte_tokenizer.h"
#include "tests/data/support.h"

namespace trainer::data {
namespace {

struct Preferences : ::testing::Test {
  TempFolder folder;
  config::DataConfig config;

  Preferences() {
    config.cache_dir = (folder / "cache").string();
    config.task = config::Task::kCausalLm;
    config.source = config::kPromptColumn;
    config.target = config::kChosenColumn;
    config.rejected = config::kRejectedColumn;
  }
  TokenSamples samples(const std::string& records, const Tokenizer& tokenizer = ByteTokenizer()) {
    config.train = {.path = {folder.write("a.jsonl", records)}};
    store = prepare({config, config.train}, tokenizer);
    std::vector<int64_t> all;
    for (int64_t i = 0; i < store->size(); ++i) all.push_back(i);
    return {store, all, config.task, {}, /*pairs=*/true};
  }

  std::shared_ptr<const TokenCache> store;
};

constexpr int32_t kEnd = 1;

TEST_F(Preferences, ASampleIsBothTextsWithTheirPrompt) {
  const TokenSamples pairs = samples(R"({"prompt": "ab", "chosen": "c", "rejected": "de"})"
                                     "\n");
  ASSERT_EQ(pairs.size(), 1);
  EXPECT_TRUE(pairs.are_pairs());
  EXPECT_EQ(pairs.label_kind(), LabelKind::kNext);
  Sample sample;
  pairs.read(0, sample);
  EXPECT_EQ(sample.source, (std::vector<int32_t>{'a', 'b', 'c', kEnd, 'a', 'b', 'd', 'e', kEnd}));
  EXPECT_EQ(sample.labels, (std::vector<int32_t>{-100, 'c', kEnd, -100, -100, 'd', 'e', kEnd, -100}));
  EXPECT_EQ(sample.parts, (std::vector<int64_t>{0, 4}));
  EXPECT_TRUE(sample.reference.empty());
  const Lengths lengths = pairs.lengths(0);
  EXPECT_EQ(lengths.source, 9);
  EXPECT_EQ(lengths.rejected, 5);
  EXPECT_EQ(lengths.learned, 5);
  EXPECT_EQ(pairs.tokens(0), 9);
  EXPECT_EQ(pairs.loss_terms(0), 1);
}

TEST_F(Preferences, ATokenThatReachesIntoAReplyIsLearned) {
  const PlainTokenizer tokenizer({"</s>", "b c"});
  const int32_t end = tokenizer.eos_id(), border = end + 1;
  const TokenSamples pairs = samples(R"({"prompt": "ab", "chosen": " cd", "rejected": "e"})"
                                     "\n",
                                     tokenizer);
  Sample sample;
  pairs.read(0, sample);
  EXPECT_EQ(sample.source, (std::vector<int32_t>{'a', border, 'd', end, 'a', 'b', 'e', end}));
  // TRL lets both replies begin after the tokens that the prompt and the two texts have in common.
  EXPECT_EQ(sample.labels, (std::vector<int32_t>{border, 'd', end, -100, 'b', 'e', end, -100}));
}

TEST_F(Preferences, NothingPredictsTheFirstTokenOfATextWithoutPrompt) {
  const TokenSamples pairs = samples(R"({"chosen": "cc", "rejected": "d"})"
                                     "\n");
  Sample sample;
  pairs.read(0, sample);
  EXPECT_EQ(sample.labels, (std::vector<int32_t>{'c', kEnd, -100, kEnd, -100}));
}

TEST_F(Preferences, TextsAreTruncatedAtTheirEnd) {
  config.max_length = 4;
  const TokenSamples pairs = samples(R"({"prompt": "ab", "chosen": "cdefg", "rejected": "h"})"
                                     "\n"
                                     R"({"prompt": "abcd", "chosen": "e", "rejected": "f"})"
                                     "\n");
  ASSERT_EQ(pairs.size(), 1);  // of the second one, no reply is left
  Sample sample;
  pairs.read(0, sample);
  EXPECT_EQ(sample.source, (std::vector<int32_t>{'a', 'b', 'c', 'd', 'a', 'b', 'h', kEnd}));
  EXPECT_EQ(store->facts().cut, 1);
  EXPECT_EQ(store->facts().too_long, 1);
}

TEST_F(Preferences, EqualRepliesAreDroppedAndCounted) {
  const TokenSamples pairs = samples(R"({"prompt": "a", "chosen": "b", "rejected": "c"})"
                                     "\n"
                                     R"({"prompt": "a", "chosen": "b", "rejected": "b"})"
                                     "\n");
  EXPECT_EQ(pairs.size(), 1);
  ASSERT_EQ(store->facts().notes.size(), 1u);
  EXPECT_NE(
      store->facts().notes[0].find("1 pair was dropped because the chosen reply equals the rejected one; the first: "),
      std::string::npos);
  EXPECT_NE(store->facts().notes[0].find("a.jsonl:2"), std::string::npos);
}

}  // namespace
}  // namespace trainer::data
