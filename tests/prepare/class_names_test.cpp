#include "engine/prepare/class_names.h"

#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/checkpoint/contents.h"
#include "engine/checkpoint/signature.h"
#include "tests/checkpoint/test_key.h"
#include "tests/support/temporary_folder.h"

namespace trainer::prepare {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

class ClassNames : public ::testing::Test {
 protected:
  ClassNames() {
    config_.output_dir = (folder_.path() / "output").string();
    config_.model.path = (folder_.path() / "model").string();
  }

  static void write(const fs::path& path, const std::string& text) {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }

  static std::string config_json(const Names& names) {
    nlohmann::json config = nlohmann::json::object();
    for (size_t i = 0; i < names.size(); ++i) config["id2label"][std::to_string(i)] = names[i];
    return config.dump();
  }

  /// Without `classes`, as earlier versions wrote it.
  fs::path write_checkpoint(int64_t step, const Names& classes = {}) {
    const fs::path folder = fs::path(config_.output_dir) / ("checkpoint-" + std::to_string(step));
    nlohmann::json manifest = {{"format", checkpoint::kFormat},
                               {"version", checkpoint::kFormatVersion},
                               {"progress", {{"step", step}}},
                               {"world_size", 1},
                               {"strategy", ""},
                               {"optimizer", ""},
                               {"metrics", nlohmann::json::object()},
                               {"files", nlohmann::json::array()}};
    if (!classes.empty()) manifest["classes"] = classes;
    write(folder / "manifest.json", checkpoint::sealed(manifest.dump()));
    return folder;
  }

  static void sign(const fs::path& folder, int64_t step, const std::string& run) {
    const checkpoint::Sums sums{
        .run = run, .step = step, .files = {{"manifest.json", checkpoint::sha256_of_file(folder / "manifest.json")}}};
    for (const auto& [name, content] : checkpoint::signature_files(sums, testing::signing_key("openssl.pem")))
      write(folder / name, content);
  }

  const testing::TemporaryFolder folder_;
  config::Config config_;
};

TEST_F(ClassNames, AreTheModelsWithoutACheckpoint) {
  EXPECT_EQ(settled_classes(config_).names, Names());
  EXPECT_EQ(settled_classes(config_).order, data::LabelOrder::kIntegersAsNumbers);
  write(folder_.path() / "model/config.json", config_json({"1", "10", "2"}));
  EXPECT_EQ(settled_classes(config_).names, (Names{"1", "10", "2"}));
  write_checkpoint(3, {"2", "1", "10"});
  config_.checkpoint.resume_from_checkpoint = "false";
  EXPECT_EQ(settled_classes(config_).names, (Names{"1", "10", "2"}));
}

TEST_F(ClassNames, AreTheCheckpointsWhenResuming) {
  write(folder_.path() / "model/config.json", config_json({"a", "b"}));
  const fs::path older = write_checkpoint(3, {"1", "10", "2"});
  const fs::path newest = write_checkpoint(12, {"1", "2", "10"});
  EXPECT_EQ(settled_classes(config_).names, (Names{"1", "2", "10"}));
  config_.checkpoint.resume_from_checkpoint = older.string();
  EXPECT_EQ(settled_classes(config_).names, (Names{"1", "10", "2"}));
  config_.checkpoint.resume_from_checkpoint = "auto";
  write(newest / "manifest.json", "{");  // damaged: it is skipped
  EXPECT_EQ(settled_classes(config_).names, (Names{"1", "10", "2"}));
}

TEST_F(ClassNames, AreThoseOfTheRunThatSignedThem) {
  config_.checkpoint.trusted_key = testing::key_file("openssl.pub.pem");
  const fs::path folder = write_checkpoint(3, {"1", "10", "2"});
  EXPECT_EQ(settled_classes(config_).names, Names());  // nobody signed it
  sign(folder, 3, "another");
  EXPECT_EQ(settled_classes(config_).names, Names());
  sign(folder, 3, "output");
  EXPECT_EQ(settled_classes(config_).names, (Names{"1", "10", "2"}));
  sign(folder, 3, "another");
  config_.checkpoint.resume_from_checkpoint = folder.string();  // as the user asks
  EXPECT_EQ(settled_classes(config_).names, (Names{"1", "10", "2"}));
}

TEST_F(ClassNames, OfAnOldCheckpointAreInItsConfigOrSortedAsText) {
  const fs::path folder = write_checkpoint(3);
  EXPECT_EQ(settled_classes(config_).names, Names());
  EXPECT_EQ(settled_classes(config_).order, data::LabelOrder::kAsText);
  write(folder_.path() / "model/config.json", config_json({"a", "b"}));  // an adapter's classes are its model's
  EXPECT_EQ(settled_classes(config_).names, (Names{"a", "b"}));
  write(folder / "config.json", config_json({"1", "10", "2"}));
  EXPECT_EQ(settled_classes(config_).names, (Names{"1", "10", "2"}));
}

TEST_F(ClassNames, OfTheConfigurationMustMatchTheCheckpoint) {
  write_checkpoint(3, {"1", "10", "2"});
  config_.data.labels = {"1", "10", "2"};
  EXPECT_EQ(settled_classes(config_).names, (Names{"1", "10", "2"}));
  config_.data.labels = {"1", "2", "10"};
  try {
    settled_classes(config_);
    FAIL();
  } catch (const ConfigError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("data.labels is 1, 2, 10, but "), std::string::npos) << text;
    EXPECT_NE(text.find("checkpoint-3 was saved with the classes 1, 10, 2"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace trainer::prepare
