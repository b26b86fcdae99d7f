// Detection of the format and columns of undescribed files.
#include "data/samples/describe_source.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include "engine/base/errors.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;
using config::DataFormat;
using config::Dialogue;
using config::Task;
using Names = std::vector<std::string>;

class DescribeSource : public ::testing::Test {
 protected:
  DescribeSource() : folder_(fs::temp_directory_path() / ("describe-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~DescribeSource() override { fs::remove_all(folder_); }

  SourceDescription describe(const std::string& name, const std::string& text, Task task) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    config_.task = task;
    config_.train.path = {(folder_ / name).string()};
    return describe_source(config_);
  }

  fs::path folder_;
  config::DataConfig config_;
};

TEST_F(DescribeSource, DetectsTheFormatByExtension) {
  const auto csv = describe("a.csv", "text,label\nfine,good\nbad,poor\n", Task::kSequenceClassification);
  EXPECT_EQ(csv.format, DataFormat::kCsv);
  EXPECT_TRUE(csv.by_ending);
  EXPECT_EQ(csv.columns, (Names{"text", "label"}));
  EXPECT_TRUE(csv.names.empty());
  EXPECT_EQ(describe("a.tsv", "a\tb\n1\t2\n", Task::kSeq2SeqLm).format, DataFormat::kTsv);
  EXPECT_EQ(describe("a.jsonl", "{\"a\":\"b\"}\n", Task::kCausalLm).format, DataFormat::kJsonl);
}

TEST_F(DescribeSource, DetectsJsonLinesInAJsonFile) {
  const auto lines = describe("a.json", "{\"a\":\"b\"}\n{\"a\":\"c\"}\n", Task::kCausalLm);
  EXPECT_EQ(lines.format, DataFormat::kJsonl);
  EXPECT_FALSE(lines.by_ending);
  EXPECT_EQ(describe("b.json", "[{\"a\":\"b\"}]", Task::kCausalLm).format, DataFormat::kJson);
  EXPECT_THROW(describe("c.json", "[{\"a\":\"b\"},", Task::kCausalLm), InputError);
}

TEST_F(DescribeSource, DetectsTheFormatByContent) {
  EXPECT_EQ(describe("lines", "{\"a\":\"b\"}\n", Task::kCausalLm).format, DataFormat::kJsonl);
  EXPECT_EQ(describe("list.data", "[{\"a\":\"b\"}]", Task::kCausalLm).format, DataFormat::kJson);
  EXPECT_EQ(describe("words.data", "Once upon a time\n", Task::kCausalLm).format, DataFormat::kText);
}

TEST_F(DescribeSource, DetectsADelimiterThatSplitsEveryLine) {
  const std::string text = "Sales rose.@up\nme@home.org fell.@down\n";
  const auto pairs = describe("a.txt", text, Task::kSequenceClassification);
  EXPECT_EQ(pairs.format, DataFormat::kDelimited);
  EXPECT_EQ(pairs.delimiter, "@");
  EXPECT_FALSE(pairs.by_ending);
  EXPECT_EQ(describe("a.txt", text, Task::kCausalLm).format, DataFormat::kText);
  EXPECT_EQ(describe("a.txt", "a | b\nc\n", Task::kSeq2SeqLm).format, DataFormat::kText);
}

TEST_F(DescribeSource, DetectsLatin1) {
  const auto latin = describe("a.txt", "Yhti\xF6@same\nFine@good\n", Task::kSequenceClassification);
  EXPECT_EQ(latin.encoding, "latin-1");
  EXPECT_EQ(latin.format, DataFormat::kDelimited);
}

TEST_F(DescribeSource, DoesNotTakeValuesForColumnNames) {
  const auto values = describe("a.csv", "good,Sales rose sharply\nbad,Sales fell again\ngood,Orders rose\n",
                               Task::kSequenceClassification);
  EXPECT_EQ(values.names, (Names{"label", "text"}));
  EXPECT_EQ(describe("b.csv", "1,Sales rose\n2,Sales fell\n", Task::kSequenceClassification).names,
            (Names{"label", "text"}));
  EXPECT_EQ(describe("c.csv", "id,when,text\n1,May,Sales rose\n2,June,Sales fell\n", Task::kCausalLm).names, Names{});
}

TEST_F(DescribeSource, ListsTheClassesOfTheTarget) {
  config_.target = "label";
  const std::string text = "text,label\nfine,good\nbad, poor\nnice,good\n";
  EXPECT_EQ(describe("a.csv", text, Task::kSequenceClassification).labels, (Names{"good", "poor"}));
  EXPECT_EQ(describe("a.csv", text, Task::kSeq2SeqLm).labels, Names{});
}

TEST_F(DescribeSource, ListsOnlyColumnsOfAllRecords) {
  const auto found = describe("a.jsonl", "{\"a\":\"1\",\"b\":\"2\"}\n{\"b\":\"3\",\"c\":\"4\"}\n", Task::kSeq2SeqLm);
  EXPECT_EQ(found.columns, Names{"b"});
}

TEST_F(DescribeSource, DetectsDialogueFormats) {
  const std::string turns = R"([{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello"}])";
  const std::string shared = R"([{"from":"human","value":"Hi"},{"from":"gpt","value":"Hello"}])";
  struct Case {
    std::string record;
    Dialogue dialogue;
    std::string messages;
  };
  for (const Case& c :
       {Case{R"({"messages":)" + turns + "}", Dialogue::kMessages, ""},
        Case{R"({"conversations":)" + shared + "}", Dialogue::kShareGpt, ""},
        Case{R"({"conversations":)" + turns + "}", Dialogue::kMessages, "conversations"},
        Case{R"({"id":1,"dialog":)" + shared + "}", Dialogue::kShareGpt, "dialog"},
        Case{R"({"instruction":"Hi","output":"Hello"})", Dialogue::kAlpaca, ""},
        Case{R"({"prompt":"Hi","completion":"Hello"})", Dialogue::kPrompt, ""},
        Case{R"({"text":"Hi"})", Dialogue::kNone, ""}, Case{R"({"list":[1,2]})", Dialogue::kNone, ""}}) {
    const auto found = describe("a.jsonl", c.record + "\n", Task::kCausalLm);
    EXPECT_EQ(found.dialogue, c.dialogue) << c.record;
    EXPECT_EQ(found.messages, c.messages) << c.record;
    EXPECT_EQ(describe("a.jsonl", c.record + "\n", Task::kSeq2SeqLm).dialogue, Dialogue::kNone);
  }
  config_.dialogue = Dialogue::kAlpaca;
  EXPECT_THROW(describe("a.jsonl", R"({"text":"Hi"})", Task::kCausalLm), InputError);
}

TEST_F(DescribeSource, DetectsMegatronFilesAndImages) {
  describe("a.bin", "x", Task::kSeq2SeqLm);
  std::ofstream(folder_ / "a.idx") << "x";
  EXPECT_EQ(describe("a.bin", "x", Task::kCausalLm).format, DataFormat::kMegatron);
  config_.train.path = {(folder_ / "a").string()};
  EXPECT_EQ(describe_source(config_).format, DataFormat::kMegatron);
  EXPECT_THROW(describe("t10k-images-idx3-ubyte", "x", Task::kImageClassification), InputError);
}

TEST_F(DescribeSource, RejectsMissingFiles) {
  config_.train.path = {(folder_ / "nowhere.csv").string()};
  EXPECT_THROW(describe_source(config_), InputError);
}

}  // namespace
}  // namespace trainer::data
