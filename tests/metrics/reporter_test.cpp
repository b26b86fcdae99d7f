#include "engine/metrics/reporter.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "engine/base/files.h"

namespace trainer::metrics {
namespace {

class ReporterTest : public ::testing::Test {
 protected:
  ReporterTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "reporter.XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~ReporterTest() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
};

TEST_F(ReporterTest, WritesEventFilesOnlyIfConfigured) {
  const StepRecord record{.step = 1, .loss = 2.0};
  Reporter(config::LoggingConfig{}, folder_, 0, 10).report(record);
  EXPECT_EQ(read_file(folder_ / "metrics.jsonl"), to_json_line(record));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "tensorboard"));

  config::LoggingConfig logging;
  logging.report_to = {"tensorboard"};
  Reporter(logging, folder_, 1, 10).report(EvaluationRecord{2, 1.0, {{"eval_loss", 1.0}}});
  EXPECT_EQ(read_file(folder_ / "metrics.jsonl"),
            to_json_line(record) + to_json_line(EvaluationRecord{2, 1.0, {{"eval_loss", 1.0}}}));
  EXPECT_FALSE(std::filesystem::is_empty(folder_ / "tensorboard"));
}

}  // namespace
}  // namespace trainer::metrics
