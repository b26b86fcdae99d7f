#include "engine/metrics/metrics_log.h"

#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <limits>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/base/files.h"

namespace trainer::metrics {
namespace {

class MetricsLogTest : public ::testing::Test {
 protected:
  MetricsLogTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "metrics.XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    path_ = folder_ / "metrics.jsonl";
  }
  ~MetricsLogTest() override { std::filesystem::remove_all(folder_); }

  std::string content() const { return read_file(path_); }
  void resume(int64_t step) const { MetricsLog(path_, step); }

  std::filesystem::path folder_, path_;
};

TEST(MetricsJson, KeepsEveryBitOfANumber) {
  for (double value : {0.1, 1.0 / 3.0, 1e-300, 5e-324, 1.7976931348623157e308, -0.0, 2.0, 1e21, 123456789.123456789}) {
    const auto json = nlohmann::json::parse(to_json_line(StepRecord{.step = 3, .loss = value}));
    EXPECT_TRUE(json["loss"].is_number_float()) << json["loss"];
    const auto read = json["loss"].get<double>();
    EXPECT_EQ(std::memcmp(&read, &value, sizeof(value)), 0) << value;
  }
}

TEST(MetricsJson, WritesTheContractsKeysInOrder) {
  StepRecord record{1, 0.5, 2.25, 0.125, 0.75, 64, 8, 1000, 0.5, 0.25, 0.75, 4096, 2048, "ab\"c"};
  EXPECT_EQ(
      to_json_line(record),
      R"({"step":1,"epoch":0.5,"loss":2.25,"grad_norm":0.125,"learning_rate":0.75,"tokens":64,"samples":8,)"
      R"("tokens_per_second":1000.0,"step_seconds":0.5,"data_wait_seconds":0.25,"efficiency":0.75,"memory_bytes":4096,)"
      R"("tensor_bytes":2048,"order_digest":"ab\"c"})"
      "\n");
  EXPECT_EQ(to_json_line(EvaluationRecord{2, 1.0, {{"eval_loss", 0.5}, {"eval_accuracy", 1.0}}}),
            R"({"step":2,"epoch":1.0,"eval_accuracy":1.0,"eval_loss":0.5})"
            "\n");
}

TEST(MetricsJson, HasEachRanksMemoryOrThatOfManySummedUp) {
  StepRecord record{.step = 1, .phase_seconds = {{"forward", 0.5}}, .rank_memory_bytes = {3, 1, 2}};
  auto json = nlohmann::json::parse(to_json_line(record));
  EXPECT_EQ(json["rank_memory_bytes"], (std::vector<int64_t>{3, 1, 2}));
  EXPECT_FALSE(json.contains("rank_tensor_bytes")) << "none were given";
  EXPECT_EQ(json["forward_seconds"], 0.5);
  record.rank_memory_bytes.clear();
  for (int64_t rank = 100; rank > 0; --rank) record.rank_memory_bytes.push_back(rank);
  json = nlohmann::json::parse(to_json_line(record));
  EXPECT_FALSE(json.contains("rank_memory_bytes"));
  EXPECT_EQ(json["memory_bytes_min"], 1);
  EXPECT_EQ(json["memory_bytes_median"], 51);
}

TEST(MetricsJson, HasEvents) {
  auto json = nlohmann::json::parse(to_json_line(SaveRecord{7}));
  EXPECT_EQ(json["event"], "saved");
  EXPECT_GT(json["time"], 1.7e9);
  EXPECT_EQ(nlohmann::json::parse(to_json_line(SaveRecord{7, true}))["event"], "save failed");
  StartRecord start{.ranks = 2, .units = {{"a\"b", "Block", 5}}, .lengths = {{"source", {{0, 9, 3}}}}};
  json = nlohmann::json::parse(to_json_line(start));
  EXPECT_EQ(json["event"], "started");
  EXPECT_FALSE(json.contains("reached"));
  EXPECT_EQ(json["units"][0]["name"], "a\"b");
  EXPECT_EQ(json["lengths"]["source"][0]["samples"], 3);
  start.reached = 9;
  json = nlohmann::json::parse(to_json_line(start));
  EXPECT_EQ(json["event"], "resumed");
  EXPECT_EQ(json["reached"], 9);
}

TEST(MetricsJson, IsValidForNonFiniteValues) {
  const double inf = std::numeric_limits<double>::infinity();
  const auto json = nlohmann::json::parse(to_json_line(StepRecord{.loss = std::nan(""), .grad_norm = -inf}));
  EXPECT_TRUE(json["loss"].is_null());
  EXPECT_EQ(json["loss_text"], "nan");
  EXPECT_TRUE(json["grad_norm"].is_null());
  EXPECT_EQ(json["grad_norm_text"], "-inf");
}

TEST_F(MetricsLogTest, ANewRunStartsEmpty) {
  MetricsLog(path_, 0).write(to_json_line(StepRecord{.step = 9}));
  MetricsLog log(path_, 0);
  EXPECT_EQ(content(), "");
  log.write(to_json_line(StepRecord{.step = 1}));
  EXPECT_EQ(content(), to_json_line(StepRecord{.step = 1}));
}

TEST_F(MetricsLogTest, KeepsTheEventsOfTheLoadedCheckpointAndKnowsHowFarTheRunWas) {
  const std::string saved = to_json_line(SaveRecord{2}),
                    evaluated = to_json_line(EvaluationRecord{2, 1, {{"eval_loss", 1.0}}});
  {
    MetricsLog log(path_, 0);
    EXPECT_EQ(log.reached(), -1);
    log.write(saved);
    log.write(evaluated);
    log.write(to_json_line(StepRecord{.step = 5}));
  }
  EXPECT_EQ(MetricsLog(path_, 2, /*at_end=*/true).reached(), 5);
  EXPECT_EQ(content(), saved) << "without the evaluation, which is repeated";
}

TEST_F(MetricsLogTest, AResumedRunDropsLinesAfterItsCheckpoint) {
  std::string expected;
  {
    MetricsLog log(path_, 0);
    for (int64_t step = 1; step <= 5; ++step)
      log.write(to_json_line(StepRecord{.step = step, .loss = 1.0 / static_cast<double>(step)}));
    log.write(to_json_line(EvaluationRecord{3, 1.0, {{"eval_loss", 1.0}}}));
  }
  for (int64_t step = 1; step <= 3; ++step)
    expected += to_json_line(StepRecord{.step = step, .loss = 1.0 / static_cast<double>(step)});
  expected += to_json_line(EvaluationRecord{3, 1.0, {{"eval_loss", 1.0}}});
  MetricsLog log(path_, 3);
  EXPECT_EQ(content(), expected);
  log.write(to_json_line(StepRecord{.step = 4}));
  EXPECT_EQ(content(), expected + to_json_line(StepRecord{.step = 4}));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(MetricsLogTest, ResumingAtTheEndDropsTheLastEvaluation) {
  const std::string step = to_json_line(StepRecord{.step = 2, .order_digest = "0"});
  const std::string early = to_json_line(EvaluationRecord{1, 0.5, {{"eval_loss", 2.0}}});
  const std::string last = to_json_line(EvaluationRecord{2, 1.0, {{"eval_loss", 1.0}}});
  publish_file(path_, early + step + last);
  resume(2);
  EXPECT_EQ(content(), early + step + last);
  MetricsLog(path_, 2, /*at_end=*/true);
  EXPECT_EQ(content(), early + step);
}

TEST_F(MetricsLogTest, DropsAHalfWrittenLastLine) {
  const std::string line = to_json_line(StepRecord{.step = 1});
  for (size_t cut : {size_t{1}, size_t{9}, line.size() / 2, line.size() - 1}) {
    publish_file(path_, line + line.substr(0, cut));
    resume(5);
    ASSERT_EQ(content(), line) << cut;
  }
}

TEST_F(MetricsLogTest, DropsLinesThatAreNotRecords) {
  const std::string line = to_json_line(StepRecord{.step = 1});
  publish_file(path_, "\n[1]\n{\"step\":-1}\n{\"step\":\"1\"}\n{}\nstep\n" + line);
  resume(5);
  EXPECT_EQ(content(), line);
}

TEST_F(MetricsLogTest, AFullDiskDelaysLines) {
  signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{10, before.rlim_max};
  const std::string one = to_json_line(StepRecord{.step = 1}), two = to_json_line(StepRecord{.step = 2});
  {
    MetricsLog log(path_, 0);
    setrlimit(RLIMIT_FSIZE, &small);
    log.write(one);  // its first 10 bytes fit
    EXPECT_EQ(content(), one.substr(0, 10));
    log.write(two);
    setrlimit(RLIMIT_FSIZE, &before);
  }
  EXPECT_EQ(content(), one + two);
}

TEST_F(MetricsLogTest, DropsWholeLinesWhenTheDiskStaysFull) {
  signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit none{0, before.rlim_max};
  const std::string line = std::string(1 << 20, 'x') + "\n", last = "last\n";
  MetricsLog log(path_, 0);
  setrlimit(RLIMIT_FSIZE, &none);
  for (int i = 0; i < 10; ++i) log.write(line);
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(content().size(), 0U);
  log.write(last);
  EXPECT_TRUE(content() == line + line + line + last) << content().size();
}

TEST_F(MetricsLogTest, AMissingFolderIsAMachineError) {
  EXPECT_THROW(MetricsLog(folder_ / "none" / "metrics.jsonl", 0), MachineError);
}

}  // namespace
}  // namespace trainer::metrics
