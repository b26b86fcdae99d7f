#include "data/samples/datasets.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "data/samples/token_samples.h"
#include "tests/data/byte_tokenizer.h"
#include "tests/data/support.h"
#include "tests/support/source_dir.h"

namespace trainer::data {
namespace {

/// The cache folder of these tests.
std::string cache() {
  static const TempFolder folder;
  return folder.string();
}

config::DataConfig config_for(const std::string& path) {
  config::DataConfig config;
  config.cache_dir = cache();
  config.train = {.path = {path}, .format = config::DataFormat::kDelimited, .columns = {"sentence", "label"}};
  config.source = "{sentence}";
  config.target = "label";
  return config;
}

Datasets load_datasets(const config::DataConfig& config, const Tokenizer& tokenizer, int64_t seed) {
  return open_datasets({config, seed}, &tokenizer);
}

Sample sample_of(const Samples& samples, int64_t index) {
  Sample sample;
  samples.read(index, sample);
  return sample;
}

int64_t record_of(const Samples& samples, int64_t index) {
  return dynamic_cast<const TokenSamples&>(samples).record(index);
}

std::string numbered_lines(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += fmt::format("sentence {}@{}\n", i, i % 4 == 0 ? "no" : "yes");
  return text;
}

TEST(OpenDatasets, TokenizesSourceAndTarget) {
  TempFolder folder;
  config::DataConfig config = config_for(folder.write("a.txt", "ab@c\nd@ef\n"));
  Datasets datasets = load_datasets(config, ByteTokenizer(), 1);
  ASSERT_EQ(datasets.train->size(), 2);
  EXPECT_TRUE(datasets.validation->empty());
  EXPECT_EQ(sample_of(*datasets.train, 0).source, (std::vector<int32_t>{'a', 'b', 1}));
  EXPECT_EQ(sample_of(*datasets.train, 0).labels, (std::vector<int32_t>{'c', 1}));
  EXPECT_EQ(sample_of(*datasets.train, 1).source, (std::vector<int32_t>{'d', 1}));
  EXPECT_EQ(sample_of(*datasets.train, 1).labels, (std::vector<int32_t>{'e', 'f', 1}));
  EXPECT_EQ(token_count(*datasets.train), 10);
  EXPECT_EQ(datasets.train->text(0).source, "");  // stored for validation only
}

TEST(OpenDatasets, TruncatesLongTextsBeforeTheEndToken) {
  TempFolder folder;
  config::DataConfig config = config_for(folder.write("a.txt", "abcdef@ghi\nabc@g\n"));
  config.max_source_length = 4;
  config.max_target_length = 3;
  const auto train = load_datasets(config, ByteTokenizer(), 1).train;
  EXPECT_EQ(sample_of(*train, 0).source, (std::vector<int32_t>{'a', 'b', 'c', 1}));
  EXPECT_EQ(sample_of(*train, 0).labels, (std::vector<int32_t>{'g', 'h', 1}));
  EXPECT_EQ(sample_of(*train, 1).source.size(), 4u);
  EXPECT_EQ(train->cut(), 1);
}

TEST(OpenDatasets, DropsTooLongAndTooShortSamples) {
  TempFolder folder;
  config::DataConfig config = config_for(folder.write("a.txt", "abcdef@ghi\nabc@g\na@b\n"));
  config.max_source_length = 4;
  config.min_length = 3;
  config.on_too_long = config::TooLong::kDrop;
  const Datasets datasets = load_datasets(config, ByteTokenizer(), 1);
  EXPECT_EQ(datasets.train->size(), 1);
  EXPECT_EQ(datasets.notes.size(), 2u);
  config.on_too_long = config::TooLong::kError;
  contains(error_of<InputError>([&] { load_datasets(config, ByteTokenizer(), 1); }),
           "a.txt:1: 7 tokens, but at most 4");
}

TEST(OpenDatasets, CausalSamplesLearnTheTargetAndTheEndToken) {
  TempFolder folder;
  config::DataConfig config = config_for(folder.write("a.txt", "ab@cd\n"));
  config.task = config::Task::kCausalLm;
  Sample sample = sample_of(*load_datasets(config, ByteTokenizer(), 1).train, 0);
  EXPECT_EQ(sample.source, (std::vector<int32_t>{'a', 'b', 'c', 'd', 1}));
  EXPECT_EQ(sample.labels, (std::vector<int32_t>{-100, 'c', 'd', 1, -100}));
  config.target = "";
  const auto train = load_datasets(config, ByteTokenizer(), 1).train;
  EXPECT_EQ(sample_of(*train, 0).labels, (std::vector<int32_t>{'b', 1, -100}));
  EXPECT_EQ(train->lengths(0).learned, 2);
}

TEST(OpenDatasets, SplitsGroupedTextsIntoEqualLengths) {
  TempFolder folder;
  config::DataConfig config = config_for(folder.write("a.txt", "abc@x\nde@x\nfghi@x\n"));
  config.task = config::Task::kCausalLm;
  config.target = "";
  config.group_texts = true;
  config.max_length = 5;
  const auto train = load_datasets(config, ByteTokenizer(), 1).train;
  ASSERT_EQ(train->size(), 3);  // 4 + 3 + 5 tokens
  EXPECT_EQ(sample_of(*train, 0).source, (std::vector<int32_t>{'a', 'b', 'c', 1, 'd'}));
  EXPECT_EQ(sample_of(*train, 1).source, (std::vector<int32_t>{'e', 1, 'f', 'g', 'h'}));
  EXPECT_EQ(sample_of(*train, 2).source, (std::vector<int32_t>{'i', 1}));
}

TEST(OpenDatasets, IntegerClassNamesAreSortedAsNumbers) {
  using Names = std::vector<std::string>;
  const auto labels_of = [](const Names& names, LabelOrder order = LabelOrder::kIntegersAsNumbers) {
    TempFolder folder;
    std::string lines;
    for (const std::string& name : names) lines += "a@" + name + "\n";
    config::DataConfig config = config_for(folder.write("a.txt", lines));
    config.task = config::Task::kSequenceClassification;
    DatasetsRequest request{config, 1};
    request.label_order = order;
    const ByteTokenizer tokenizer;
    return open_datasets(request, &tokenizer).labels;
  };
  EXPECT_EQ(labels_of({"10", "9", "0", "1"}), (Names{"0", "1", "9", "10"}));
  EXPECT_EQ(labels_of({"2", "-10", "-9", "+1", "0"}), (Names{"-10", "-9", "0", "+1", "2"}));
  EXPECT_EQ(labels_of({"100000000000000000000", "99999999999999999999", "007", "7", "-0", "0"}),
            (Names{"-0", "0", "007", "7", "99999999999999999999", "100000000000000000000"}));
  EXPECT_EQ(labels_of({"10", "9", "none"}), (Names{"10", "9", "none"}));
  EXPECT_EQ(labels_of({"10", "9", "1.5"}), (Names{"1.5", "10", "9"}));
  EXPECT_EQ(labels_of({"10", "9", "1"}, LabelOrder::kAsText), (Names{"1", "10", "9"}));
}

TEST(OpenDatasets, NumbersClassesByName) {
  TempFolder folder;
  config::DataConfig config = config_for(folder.write("a.txt", "a@no\nb@yes\nc@no\n"));
  config.task = config::Task::kSequenceClassification;
  Datasets datasets = load_datasets(config, ByteTokenizer(), 1);
  EXPECT_EQ(datasets.labels, (std::vector<std::string>{"no", "yes"}));
  EXPECT_EQ(sample_of(*datasets.train, 1).labels, (std::vector<int32_t>{1}));
  config.labels = {"yes", "no", "maybe"};
  datasets = load_datasets(config, ByteTokenizer(), 1);
  EXPECT_EQ(sample_of(*datasets.train, 1).labels, (std::vector<int32_t>{0}));
  ASSERT_EQ(datasets.notes.size(), 1u);
  contains(datasets.notes[0], "no sample has the label maybe");
  config.labels = {"yes", "maybe"};
  contains(error_of<InputError>([&] { load_datasets(config, ByteTokenizer(), 1); }),
           "a.txt:1: the label 'no' is not one of the classes");
}

TEST(OpenDatasets, HoldsOutTheValidationFraction) {
  TempFolder folder;
  config::DataConfig config = config_for(folder.write("a.txt", numbered_lines(103)));
  config.validation.fraction = 0.1;
  Datasets datasets = load_datasets(config, ByteTokenizer(), 5);
  EXPECT_EQ(datasets.validation->size(), 10);
  EXPECT_EQ(datasets.train->size(), 93);
  std::set<int64_t> records;
  for (int64_t i = 0; i < datasets.validation->size(); ++i) {
    int64_t record = record_of(*datasets.validation, i);
    EXPECT_TRUE(is_validation(5, record, 103, 0.1));
    EXPECT_EQ(datasets.validation->text(i).source, fmt::format("sentence {}", record));
    records.insert(record);
  }
  for (int64_t i = 0; i < datasets.train->size(); ++i) records.insert(record_of(*datasets.train, i));
  EXPECT_EQ(records.size(), 103u);
}

TEST(OpenDatasets, ReadsValidationFromASeparateFile) {
  TempFolder folder;
  config::DataConfig config = config_for(folder.write("a.txt", numbered_lines(20)));
  config.validation = {.fraction = 0.5, .path = folder.write("b.txt", numbered_lines(8))};
  config.max_samples = 15;
  Datasets datasets = load_datasets(config, ByteTokenizer(), 5);
  EXPECT_EQ(datasets.train->size(), 15);
  ASSERT_EQ(datasets.validation->size(), 8);
  MajorityClass majority = majority_class(*datasets.validation);
  EXPECT_EQ(majority.label, "yes");
  EXPECT_DOUBLE_EQ(majority.share, 0.75);
}

std::vector<std::string> sources_of(const Datasets& datasets, const Samples& samples) {
  std::vector<std::string> texts;
  for (int64_t i = 0; i < samples.size(); ++i) texts.push_back(datasets.validation->text(i).source);
  return texts;
}

TEST(OpenDatasets, DrawsARandomSubset) {
  TempFolder folder;
  config::DataConfig config = config_for(folder.write("a.txt", numbered_lines(103)));
  config.validation.fraction = 0.25;
  config.max_samples = 40;
  config.max_samples_choice = config::RecordChoice::kRandom;
  const auto drawn = [&](int64_t seed) {
    const Datasets datasets = load_datasets(config, ByteTokenizer(), seed);
    EXPECT_EQ(datasets.train->size(), 30);
    EXPECT_EQ(datasets.validation->size(), 10);
    std::vector<std::vector<int32_t>> samples;
    for (int64_t i = 0; i < datasets.train->size(); ++i) samples.push_back(sample_of(*datasets.train, i).source);
    return std::pair(samples, sources_of(datasets, *datasets.validation));
  };
  const auto seven = drawn(7);
  EXPECT_EQ(drawn(7), seven);
  EXPECT_NE(drawn(8).first, seven.first);
  const std::set<std::vector<int32_t>> distinct(seven.first.begin(), seven.first.end());
  EXPECT_EQ(distinct.size(), 30u);
  const auto beyond_the_first_40 = [](const std::string& text) { return std::stoi(text.substr(9)) >= 40; };
  EXPECT_TRUE(std::any_of(seven.second.begin(), seven.second.end(), beyond_the_first_40));
  config.max_samples_choice = config::RecordChoice::kFirst;  // has a cache of its own
  EXPECT_NE(drawn(7).first, seven.first);
}

TEST(OpenDatasets, DrawsAllIfThereAreFewer) {
  TempFolder folder;
  config::DataConfig config = config_for(folder.write("a.txt", numbered_lines(9)));
  config.max_samples = 40;
  config.max_samples_choice = config::RecordChoice::kRandom;
  const Datasets datasets = load_datasets(config, ByteTokenizer(), 7);
  ASSERT_EQ(datasets.train->size(), 9);
  for (int64_t i = 0; i < 9; ++i) EXPECT_EQ(record_of(*datasets.train, i), i);
}

TEST(OpenDatasets, JoinsOnlyTheTextsThatWereDrawn) {
  TempFolder folder;
  config::DataConfig config = config_for(folder.write("a.txt", "aa@x\nbb@x\ncc@x\ndd@x\nee@x\nff@x\n"));
  config.task = config::Task::kCausalLm;
  config.target = "";
  config.group_texts = true;
  config.max_length = 100;
  config.max_samples = 2;
  config.max_samples_choice = config::RecordChoice::kRandom;
  EXPECT_EQ(sample_of(*load_datasets(config, ByteTokenizer(), 7).train, 0).source.size(), 6u);  // with end tokens
}

TEST(OpenDatasets, RejectsUselessData) {
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

TEST(OpenDatasets, ReportsWhyNoRecordWasUsable) {
  TempFolder folder;
  config::DataConfig config = config_for(folder.write("a.txt", "@c\n"));
  config.train.on_bad_sample = config::OnBadSample::kSkip;
  contains(error_of<InputError>([&] { load_datasets(config, ByteTokenizer(), 1); }),
           "1 record was skipped because it could not be converted: ");
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
      EXPECT_TRUE(moved > 0 || !has_choice) << "different seeds hold out the same records";
    }
  }
  EXPECT_EQ(validation_count(4846, 0.1), 485);
}

TEST(FinancialPhrasebank, LoadsCompletely) {
  std::string path = source_dir() + "/../shared/data/financial_phrasebank/Sentences_50Agree.txt";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " does not exist";
  config::DataConfig config = config_for(path);
  config.validation.fraction = 0.1;
  Datasets datasets = load_datasets(config, ByteTokenizer(), 42);
  EXPECT_EQ(datasets.train->size() + datasets.validation->size(), 4846);
  std::set<std::string> labels;
  for (int64_t i = 0; i < datasets.validation->size(); ++i) labels.insert(datasets.validation->text(i).target);
  EXPECT_EQ(labels, (std::set<std::string>{"negative", "neutral", "positive"}));
  EXPECT_EQ(majority_class(*datasets.validation).label, "neutral");
  EXPECT_NEAR(majority_class(*datasets.validation).share, 0.594, 0.06);
}

TEST(Samples, HaveThreeLabelsAndNoDuplicateSentence) {
  for (auto [name, majority] : {std::pair("reports.txt", "same"), std::pair("topics.txt", "garden")}) {
    config::DataConfig config = config_for(source_dir() + "/data/examples/" + std::string(name));
    config.validation.fraction = 1.0 - 1.0 / 900;
    const auto dataset = load_datasets(config, ByteTokenizer(), 1).validation;
    std::set<std::string> sentences, labels;
    for (int64_t i = 0; i < dataset->size(); ++i) {
      sentences.insert(dataset->text(i).source);
      labels.insert(dataset->text(i).target);
    }
    EXPECT_EQ(static_cast<int64_t>(sentences.size()), dataset->size());
    EXPECT_EQ(dataset->size(), 899);
    EXPECT_EQ(labels.size(), 3u);
    EXPECT_EQ(majority_class(*dataset).label, majority);
    EXPECT_LT(majority_class(*dataset).share, 0.5);
  }
}

}  // namespace
}  // namespace trainer::data
