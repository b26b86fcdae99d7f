// Lengths of samples from a Megatron corpus.
#include "data/samples/megatron_samples.h"

#include <algorithm>

#include "data/megatron/indexed_writer.h"
#include "tests/data/byte_tokenizer.h"
#include "tests/data/support.h"

namespace trainer::data {
namespace {

/// A tokenizer without an end-of-sequence token. (ByteTokenizer's is 1; its padding is 0.)
class WithoutEnd : public ByteTokenizer {
 public:
  int32_t eos_id() const override { return -1; }
};

class MegatronSamplesTest : public ::testing::Test {
 protected:
  MegatronSamplesTest() {
    IndexedWriter writer((folder_ / "x").string(), 256);
    for (int32_t i = 0; i < 20; ++i) writer.add_document(std::vector<int32_t>{97 + i, 0, 98, 99, 1});
    writer.publish();
    config_.train.path = {(folder_ / "x").string()};
    config_.train.format = config::DataFormat::kMegatron;
    config_.task = config::Task::kCausalLm;
    config_.megatron.sequence_length = 8;
  }
  Datasets open(const Tokenizer& tokenizer = ByteTokenizer()) { return open_megatron({config_, 1}, tokenizer); }

  TempFolder folder_;
  config::DataConfig config_;
};

int64_t learned(const Sample& sample) {
  return std::count_if(sample.labels.begin(), sample.labels.end(), [](int32_t label) { return label != -100; });
}

TEST_F(MegatronSamplesTest, LengthsCountLearnedLabels) {
  for (const bool mask_ends : {false, true}) {
    config_.megatron.eod_mask_loss = mask_ends;
    const Datasets datasets = open();
    for (int64_t i = 0; i < datasets.train->size(); ++i) {
      Sample sample;
      datasets.train->read(i, sample);
      EXPECT_EQ(datasets.train->lengths(i).learned, learned(sample)) << i;
      EXPECT_LT(learned(sample), 8) << "the corpus has padding inside";
      EXPECT_EQ(datasets.train->source_length(i), 8);
      EXPECT_EQ(datasets.train->tokens(i), 8);
    }
  }
}

TEST_F(MegatronSamplesTest, TheTokenBetweenDocumentsIsNotPadding) {
  config_.megatron.eod_id = 0;  // the tokenizer's padding
  config_.megatron.reset_attention_mask = true;
  const Datasets datasets = open();
  for (int64_t i = 0; i + 1 < datasets.train->size(); ++i) {
    Sample sample;
    datasets.train->read(i, sample);
    EXPECT_EQ(learned(sample), 8);
    EXPECT_GT(sample.parts.size(), 1U);
  }
}

TEST_F(MegatronSamplesTest, ResetAttentionMaskNeedsAnEndToken) {
  EXPECT_NO_THROW(open(WithoutEnd()));
  config_.megatron.reset_attention_mask = true;
  const std::string message = error_of<ConfigError>([&] { open(WithoutEnd()); });
  EXPECT_NE(message.find("data.megatron.reset_attention_mask is true, but the tokenizer has no end-of-sequence"),
            std::string::npos)
      << message;
  config_.megatron.eod_id = 7;
  EXPECT_NO_THROW(open(WithoutEnd()));
}

}  // namespace
}  // namespace trainer::data
