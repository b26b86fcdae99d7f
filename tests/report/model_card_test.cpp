#include "engine/report/model_card.h"

#include <gtest/gtest.h>

#include "engine/base/files.h"
#include "tests/support/temporary_folder.h"

namespace trainer::report {
namespace {

constexpr char kSteps[] = R"({"step":1,"loss":4.0,"learning_rate":0.1})"
                          "\n"
                          R"({"step":2,"eval_accuracy":0.5,"eval_loss":2.0})"
                          "\n"
                          R"({"step":3,"loss":3.0,"learning_rate":0.1})"
                          "\n"
                          R"({"step":4,"eval_accuracy":0.75,"eval_loss":1.0})"
                          "\n";

class ModelCardTest : public ::testing::Test {
 protected:
  ModelCardTest() {
    write("metrics.jsonl", kSteps);
    write("config.resolved.yaml",
          "seed: 42  # default\nmodel:\n  path: /home/anna/models/secret-base  # job.yaml:1:1\n"
          "data:\n  task: causal_lm  # job.yaml:2:1\n  train:\n    path: /mnt/host7/anna/chats.jsonl  # job.yaml:3:1\n"
          "training:\n  learning_rate: 0.003  # job.yaml:4:1\n  max_steps: 4  # default\n"
          "  resume_from: /home/anna/x  # job.yaml:5:1\nlogging:\n  run_name: annas-machine  # job.yaml:6:1\n");
    write("adapter_config.json",
          R"({"peft_type": "LORA", "base_model_name_or_path": "/home/anna/models/secret-base"})");
  }
  void write(const std::string& name, const std::string& text) const { publish_file(folder_.path() / name, text); }
  std::string card() const { return read_file(folder_.path() / "README.md"); }
  bool has(const std::string& text) const { return card().find(text) != std::string::npos; }

  testing::TemporaryFolder folder_;
};

TEST_F(ModelCardTest, HasBaseDataSettingsAndResults) {
  ASSERT_TRUE(write_model_card(folder_.path(), folder_.path()));
  for (const char* const text :
       {"library_name: peft\n", "A LoRA adapter for `", "pipeline_tag: text-generation\n", "- \"lora\"\n",
        "secret-base", "- chats.jsonl\n", "| `training.learning_rate` | 0.003 |", "| `seed` | 42 |",
        "| validation accuracy (update 4) | 0.75 |", "| training loss | 3 |", "      value: 0.75\n"})
    EXPECT_TRUE(has(text)) << text << "\n" << card();
  EXPECT_FALSE(has("max_steps")) << "a default";
}

TEST_F(ModelCardTest, TellsNothingOfTheMachine) {
  write_model_card(folder_.path(), folder_.path());
  for (const char* const text : {"/home", "anna/", "host7", "annas-machine", "job.yaml"})
    EXPECT_FALSE(has(text)) << text;
}

TEST_F(ModelCardTest, NamesFilesOfPatternsAndListsWithoutTheirFolders) {
  write("config.resolved.yaml",
        "data:\n  train:\n    path: [\"/home/anna/[ab]*.jsonl\", {path: \"/home/anna,lab/x.jsonl\", weight: 2}, "
        "/mnt/anna/y.csv]\n");
  write_model_card(folder_.path(), folder_.path());
  for (const char* const text : {"*.jsonl", "x.jsonl", "y.csv"}) EXPECT_TRUE(has(text)) << text << " in\n" << card();
  EXPECT_FALSE(has("anna")) << card();
}

TEST_F(ModelCardTest, HasTheResultsOfACheckpoint) {
  write_model_card(folder_.path(), folder_.path(), 2);
  EXPECT_TRUE(has("| validation accuracy (update 2) | 0.5 |"));
  EXPECT_TRUE(has("| training loss | 4 |"));
}

TEST_F(ModelCardTest, NamesABaseOnTheHub) {
  write("config.resolved.yaml", "model:\n  path: /x/hub/models--Qwen--Qwen3-0.6B/snapshots/ab12\n");
  write_model_card(folder_.path(), folder_.path());
  EXPECT_TRUE(has("base_model: \"Qwen/Qwen3-0.6B\"\n")) << card();
  EXPECT_TRUE(has("- \"base_model:adapter:Qwen/Qwen3-0.6B\"\n")) << card();
}

TEST_F(ModelCardTest, CopiesTheLicenseOfTheBase) {
  const testing::TemporaryFolder base;
  publish_file(base.path() / "README.md", "---\ntags: [a]\nlicense: 'apache-2.0'\n---\ntext\nlicense: mit\n");
  write("config.resolved.yaml", "model:\n  path: " + base.path().string() + "\n");
  write_model_card(folder_.path(), folder_.path());
  EXPECT_TRUE(has("license: \"apache-2.0\"\n")) << card();
}

TEST_F(ModelCardTest, ReplacesItsOwnAndKeepsOthers) {
  EXPECT_TRUE(write_model_card(folder_.path(), folder_.path(), 2));
  EXPECT_TRUE(write_model_card(folder_.path(), folder_.path()));
  EXPECT_TRUE(has("update 4"));
  write("README.md", "mine");
  EXPECT_FALSE(write_model_card(folder_.path(), folder_.path()));
  EXPECT_EQ(card(), "mine");
}

TEST_F(ModelCardTest, IsOnlyForAModelOrAdapter) {
  std::filesystem::remove(folder_.path() / "adapter_config.json");
  EXPECT_FALSE(write_model_card(folder_.path(), folder_.path()));
}

}  // namespace
}  // namespace trainer::report
