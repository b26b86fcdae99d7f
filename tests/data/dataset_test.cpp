#include "data/dataset.h"

#include <set>

#include <gtest/gtest.h>

#include "tests/data/support.h"

namespace trainer::data {
namespace {

/// One id a byte: 'a' is 97; </s> is 1.
class ByteTokenizer : public Tokenizer {
 public:
  std::vector<int32_t> encode(std::string_view text, bool add_eos) const override {
    std::vector<int32_t> ids(text.begin(), text.end());
    if (add_eos) ids.push_back(1);
    return ids;
  }
  std::string decode(std::span<const int32_t> ids, bool) const override { return {ids.begin(), ids.end()}; }
  int64_t size() const override { return 256; }
  std::optional<int32_t> id_of(std::string_view) const override { return {}; }
  std::string piece_of(int32_t id) const override { return std::string(1, static_cast<char>(id)); }
  int32_t pad_id() const override { return 0; }
  int32_t eos_id() const override { return 1; }
  int32_t unk_id() const override { return 2; }
  const std::vector<std::filesystem::path>& files() const override { return files_; }

 private:
  std::vector<std::filesystem::path> files_;
};

config::DataConfig config_for(const std::string& path) {
  config::DataConfig config;
  config.train = {.path = {path}, .format = config::DataFormat::kDelimited, .columns = {"sentence", "label"}};
  config.source = "{sentence}";
  config.target = "label";
  return config;
}

std::string numbered_lines(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += fmt::format("sentence {}@{}\n", i, i % 4 == 0 ? "no" : "yes");
  return text;
}

TEST(LoadDatasets, TokenisesBothSides) {
  TempFolder folder;
  config::DataConfig config = config_for(folder.write("a.txt", "ab@c\nd@ef\n"));
  Datasets datasets = load_datasets(config, ByteTokenizer(), 1);
  ASSERT_EQ(datasets.train.size(), 2);
  EXPECT_TRUE(datasets.validation.empty());
  auto ids = [](std::span<const int32_t> view) { return std::vector<int32_t>(view.begin(), view.end()); };
  EXPECT_EQ(ids(datasets.train.sample(0).source), (std::vector<int32_t>{'a', 'b', 1}));
  EXPECT_EQ(ids(datasets.train.sample(0).target), (std::vector<int32_t>{'c', 1}));
  EXPECT_EQ(ids(datasets.train.sample(1).source), (std::vector<int32_t>{'d', 1}));
  EXPECT_EQ(ids(datasets.train.sample(1).target), (std::vector<int32_t>{'e', 'f', 1}));
  EXPECT_EQ(datasets.train.tokens(), 10);
  EXPECT_EQ(datasets.train.longest_source(), 3);
  EXPECT_EQ(datasets.train.longest_target(), 3);
  EXPECT_EQ(datasets.train.source_text(0), "");  // kept for validation only
}

TEST(LoadDatasets, CutsLongTextsBeforeTheEnd) {
  TempFolder folder;
  config::DataConfig config = config_for(folder.write("a.txt", "abcdef@ghi\nabc@g\n"));
  config.max_source_length = 4;
  config.max_target_length = 3;
  Dataset train = load_datasets(config, ByteTokenizer(), 1).train;
  EXPECT_EQ(std::vector<int32_t>(train.sample(0).source.begin(), train.sample(0).source.end()),
            (std::vector<int32_t>{'a', 'b', 'c', 1}));
  EXPECT_EQ(std::vector<int32_t>(train.sample(0).target.begin(), train.sample(0).target.end()),
            (std::vector<int32_t>{'g', 'h', 1}));
  EXPECT_EQ(train.sample(1).source.size(), 4u);
  EXPECT_EQ(train.truncated(), 1);
}

TEST(LoadDatasets, HoldsOutTheAskedFraction) {
  TempFolder folder;
  config::DataConfig config = config_for(folder.write("a.txt", numbered_lines(103)));
  config.validation.fraction = 0.1;
  Datasets datasets = load_datasets(config, ByteTokenizer(), 5);
  EXPECT_EQ(datasets.validation.size(), 10);
  EXPECT_EQ(datasets.train.size(), 93);
  std::set<int64_t> records;
  for (int64_t i = 0; i < datasets.validation.size(); ++i) {
    int64_t record = datasets.validation.sample(i).record;
    EXPECT_TRUE(is_validation(5, record, 103, 0.1));
    EXPECT_EQ(datasets.validation.source_text(i), fmt::format("sentence {}", record));
    records.insert(record);
  }
  for (int64_t i = 0; i < datasets.train.size(); ++i) records.insert(datasets.train.sample(i).record);
  EXPECT_EQ(records.size(), 103u);
}

TEST(LoadDatasets, TakesValidationFromItsOwnFile) {
  TempFolder folder;
  config::DataConfig config = config_for(folder.write("a.txt", numbered_lines(20)));
  config.validation = {.fraction = 0.5, .path = folder.write("b.txt", numbered_lines(8))};
  config.max_samples = 15;
  Datasets datasets = load_datasets(config, ByteTokenizer(), 5);
  EXPECT_EQ(datasets.train.size(), 15);
  ASSERT_EQ(datasets.validation.size(), 8);
  MajorityClass majority = majority_class(datasets.validation);
  EXPECT_EQ(majority.label, "yes");
  EXPECT_DOUBLE_EQ(majority.share, 0.75);
}

TEST(LoadDatasets, RefusesUselessData) {
  TempFolder folder;
  auto fail = [&](const std::string& text, double fraction) {
    config::DataConfig config = config_for(folder.write("a.txt", text));
    config.validation.fraction = fraction;
    return error_of<InputError>([&] { load_datasets(config, ByteTokenizer(), 1); });
  };
  contains(fail("a@b\nc@\n", 0), "a.txt:2: the text for `data.target` is empty");
  contains(fail("a@b\n@c\n", 0), "a.txt:2: the text for `data.source` is empty");
  contains(fail("a@b\n", 0.9), "none is left to train on");
  contains(fail("\n\n", 0), "no records");
}

TEST(Validation, IsAPureFunctionOfSeedAndRecord) {
  for (int64_t records : {1, 2, 10, 999, 4846}) {
    for (double fraction : {0.0, 0.001, 0.1, 0.25, 1.0}) {
      int64_t count = 0, moved = 0;
      for (int64_t i = 0; i < records; ++i) {
        count += is_validation(1, i, records, fraction);
        moved += is_validation(1, i, records, fraction) != is_validation(2, i, records, fraction);
      }
      EXPECT_EQ(count, validation_count(records, fraction)) << records << " " << fraction;
      bool has_choice = count > 5 && count < records;
      EXPECT_TRUE(moved > 0 || !has_choice) << "seeds agree";
    }
  }
  EXPECT_EQ(validation_count(4846, 0.1), 485);
}

TEST(FinancialPhrasebank, LoadsWhole) {
  std::string path = TRAINER_SOURCE_DIR "/../shared/data/financial_phrasebank/Sentences_50Agree.txt";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not here";
  config::DataConfig config = config_for(path);
  config.validation.fraction = 0.1;
  Datasets datasets = load_datasets(config, ByteTokenizer(), 42);
  EXPECT_EQ(datasets.train.size() + datasets.validation.size(), 4846);
  std::set<std::string> labels;
  for (int64_t i = 0; i < datasets.validation.size(); ++i) labels.insert(datasets.validation.target_text(i));
  EXPECT_EQ(labels, (std::set<std::string>{"negative", "neutral", "positive"}));
  EXPECT_EQ(majority_class(datasets.validation).label, "neutral");
  EXPECT_NEAR(majority_class(datasets.validation).share, 0.594, 0.06);
}

TEST(Samples, HaveThreeLabelsAndNoSentenceTwice) {
  for (auto [name, majority] : {std::pair("reports.txt", "same"), std::pair("topics.txt", "garden")}) {
    config::DataConfig config = config_for(TRAINER_SOURCE_DIR "/data/samples/" + std::string(name));
    config.validation.fraction = 1.0 - 1.0 / 900;
    Dataset dataset = load_datasets(config, ByteTokenizer(), 1).validation;
    std::set<std::string> sentences, labels;
    for (int64_t i = 0; i < dataset.size(); ++i) {
      sentences.insert(dataset.source_text(i));
      labels.insert(dataset.target_text(i));
    }
    EXPECT_EQ(static_cast<int64_t>(sentences.size()), dataset.size());
    EXPECT_EQ(dataset.size(), 899);
    EXPECT_EQ(labels.size(), 3u);
    EXPECT_EQ(majority_class(dataset).label, majority);
    EXPECT_LT(majority_class(dataset).share, 0.5);
  }
}

}  // namespace
}  // namespace trainer::data
