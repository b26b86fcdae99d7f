// The names that datasets give their classes, and what a run makes of them.
#include "data/readers/class_label.h"

#include <gtest/gtest.h>

#include "data/samples/datasets.h"
#include "tests/data/byte_tokenizer.h"
#include "tests/data/support.h"

namespace trainer::data {
namespace {

using Names = std::vector<std::string>;

std::string card(const std::string& yaml) {
  return "---\nlicense: unknown\n" + yaml + "---\n# A dataset\n";
}

const std::string kTwo =
    "dataset_info:\n"
    "  features:\n"
    "  - name: text\n    dtype: string\n"
    "  - name: label\n    dtype:\n      class_label:\n        names:\n          '0': neg\n          '1': pos\n";

Names names_of(const TempFolder& folder, const std::string& column = "label") {
  return class_names_of_folder(folder.string(), column);
}

TEST(ClassLabel, IsReadFromTheCard) {
  const TempFolder folder;
  folder.write("README.md", card(kTwo));
  EXPECT_EQ(names_of(folder), (Names{"neg", "pos"}));
  EXPECT_EQ(names_of(folder, "text"), Names());
  EXPECT_EQ(names_of(folder, "other"), Names());
}

TEST(ClassLabel, NamesMayBeAListAndLookLikeNoText) {
  const TempFolder folder;
  folder.write("README.md", card("dataset_info:\n  features:\n  - name: label\n    dtype:\n      class_label:\n"
                                 "        names:\n        - no\n        - null\n        - 3\n"));
  EXPECT_EQ(names_of(folder), (Names{"no", "null", "3"}));
}

TEST(ClassLabel, IsThatOfTheConfigurationThatIsRead) {
  const auto info = [](const std::string& configuration, const std::string& name) {
    return "- config_name: " + configuration +
           "\n  features:\n  - name: label\n    dtype:\n      class_label:\n        names:\n          0: " + name + "\n";
  };
  const std::string both = "dataset_info:\n" + info("large", "a") + info("small", "b");
  const TempFolder folder;
  folder.write("README.md", card(both));
  EXPECT_EQ(names_of(folder), Names()) << "nothing tells which one";
  folder.write("README.md", card("configs:\n- config_name: small\n  default: true\n- config_name: large\n" + both));
  EXPECT_EQ(names_of(folder), (Names{"b"}));
  folder.write("README.md", card("configs:\n- config_name: small\n- config_name: large\n" + both));
  EXPECT_EQ(names_of(folder), Names());
  folder.write("README.md", card("dataset_info:\n" + info("large", "a") + info("default", "c")));
  EXPECT_EQ(names_of(folder), (Names{"c"}));
}

TEST(ClassLabel, IsReadFromItsJson) {
  const TempFolder folder;
  const std::string features = R"({"features": {"label": {"names": ["x", "y"], "_type": "ClassLabel"}}})";
  folder.write("dataset_infos.json", R"({"plain_text": )" + features + "}");
  EXPECT_EQ(names_of(folder), (Names{"x", "y"}));
  folder.write("dataset_infos.json", R"({"a": )" + features + R"(, "b": {}})");
  EXPECT_EQ(names_of(folder), Names());
  folder.write("dataset_info.json", features);
  EXPECT_EQ(names_of(folder), (Names{"x", "y"}));
}

TEST(ClassLabel, OfDamagedDescriptionsIsIgnored) {
  const TempFolder folder;
  for (const std::string yaml : {"dataset_info: [\n", "dataset_info: 3\n", "dataset_info:\n  features:\n  - label\n",
                                 "dataset_info:\n  features:\n  - name: label\n    dtype:\n      class_label: 3\n",
                                 "dataset_info:\n  features:\n  - name: label\n    dtype:\n      class_label:\n"
                                 "        names:\n          '0': a\n          '2': b\n",
                                 "dataset_info:\n  features:\n  - name: label\n    dtype:\n      class_label:\n"
                                 "        names: [a, a]\n"}) {
    folder.write("README.md", card(yaml));
    EXPECT_EQ(names_of(folder), Names()) << yaml;
  }
  for (const std::string json : {"", "[]", "{", R"({"features": 3})", R"({"features": {"label": 3}})",
                                 R"({"features": {"label": {"names": [1], "_type": "ClassLabel"}}})"}) {
    folder.write("dataset_info.json", json);
    EXPECT_EQ(names_of(folder), Names()) << json;
  }
}

/// A dataset with a training and a validation split, whose labels are numbers.
class NamedClasses : public testing::Test {
 protected:
  NamedClasses() {
    config_.cache_dir = (folder_ / "cache").string();
    folder_.write("set/README.md", card(kTwo));
    folder_.write("set/train.csv", "text,label\na,1\nb,0\nc,1\n");
    folder_.write("set/validation.csv", "text,label\nd,0\n");
    config_.train.path = {(folder_ / "set/train.csv").string()};
    config_.task = config::Task::kSequenceClassification;
    config_.source = "{text}";
    config_.target = "label";
  }

  /// As a folder of the Hub's cache, whose files' names tell the splits.
  void use_folder() {
    const auto snapshot = folder_ / "datasets--x/snapshots/1";
    std::filesystem::create_directories(snapshot.parent_path());
    std::filesystem::rename(folder_ / "set", snapshot);
    config_.train.path = {(folder_ / "datasets--x").string()};
    config_.validation.path = config_.train.path[0];
  }

  Datasets open(const Names& settled = {}) {
    DatasetsRequest request{config_, 1};
    request.settled_labels = settled;
    return open_datasets(request, &tokenizer_);
  }

  static int32_t class_of(const Samples& samples, int64_t index) {
    Sample sample;
    samples.read(index, sample);
    return sample.labels[0];
  }

  const TempFolder folder_;
  config::DataConfig config_;
  const ByteTokenizer tokenizer_;
};

TEST_F(NamedClasses, OfADatasetsFolder) {
  use_folder();
  const Datasets datasets = open();
  EXPECT_EQ(datasets.labels, (Names{"neg", "pos"}));
  EXPECT_EQ(class_of(*datasets.train, 0), 1);
  EXPECT_EQ(class_of(*datasets.validation, 0), 0);
  EXPECT_EQ(datasets.validation->text(0).target, "neg");
  EXPECT_EQ(majority_class(*datasets.validation).label, "neg");
  config_.target = "{label}";
  EXPECT_EQ(open().labels, (Names{"neg", "pos"}));
}

TEST_F(NamedClasses, FollowTheCard) {
  use_folder();
  EXPECT_EQ(open().labels, (Names{"neg", "pos"}));
  std::string renamed = kTwo;
  renamed.replace(renamed.find("neg"), 3, "bad");
  folder_.write("datasets--x/snapshots/1/README.md", card(renamed));
  EXPECT_EQ(open().labels, (Names{"bad", "pos"}));
}

TEST_F(NamedClasses, AreUnknownForAFileAlone) {
  EXPECT_EQ(open().labels, (Names{"0", "1"}));
}

TEST_F(NamedClasses, YieldToTheConfigurationAndTheCheckpoint) {
  use_folder();
  config_.labels = {"pos", "neg"};
  Datasets datasets = open();
  EXPECT_EQ(class_of(*datasets.train, 0), 0);
  EXPECT_EQ(datasets.validation->text(0).target, "neg");
  config_.labels = {};
  datasets = open({"0", "1"});  // of a run by an earlier version
  EXPECT_EQ(datasets.labels, (Names{"0", "1"}));
  EXPECT_EQ(class_of(*datasets.train, 0), 1);
  EXPECT_EQ(datasets.validation->text(0).target, "0");
  EXPECT_EQ(open({"LABEL_0", "LABEL_1"}).labels, (Names{"neg", "pos"}));
}

TEST_F(NamedClasses, MayBeNumbersThemselves) {
  std::string stars = kTwo;
  stars.replace(stars.find("neg"), 3, "'1'");
  stars.replace(stars.find("pos"), 3, "'2'");
  use_folder();
  folder_.write("datasets--x/snapshots/1/README.md", card(stars));
  const Datasets datasets = open();
  EXPECT_EQ(datasets.labels, (Names{"1", "2"}));
  EXPECT_EQ(class_of(*datasets.train, 0), 1);  // "1" is the second class
}

TEST_F(NamedClasses, StayWhereTheDataHaveTheNames) {
  use_folder();
  folder_.write("datasets--x/snapshots/1/train.csv", "text,label\na,pos\nb,neg\n");
  const Datasets datasets = open();
  EXPECT_EQ(datasets.labels, (Names{"neg", "pos"}));
  EXPECT_EQ(class_of(*datasets.train, 0), 1);
  folder_.write("datasets--x/snapshots/1/train.csv", "text,label\na,1\nb,7\n");
  contains(error_of<InputError>([&] { open(); }), "train.csv:3: the label '7' is not one of the classes neg, pos");
}

}  // namespace
}  // namespace trainer::data
