#include "engine/report/report.h"

#include <chrono>
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/report/confusion.h"
#include "engine/report/curves.h"
#include "engine/report/differences.h"
#include "engine/report/embedded.h"
#include "engine/report/figures.h"
#include "engine/report/html.h"
#include "tests/support/temporary_folder.h"

namespace trainer::report {
namespace {

constexpr char kMetrics[] =
    R"({"step":1,"epoch":0.5,"loss":4.0,"grad_norm":1.0,"learning_rate":0.1,"tokens":10,"step_seconds":2.0,"memory_bytes":1073741824})"
    "\n"
    R"({"step":2,"straggler":"slow","rank":3,"machine":0,"factor":2.13})"
    "\n"
    R"({"step":2,"epoch":1.0,"eval_accuracy":0.5,"eval_loss":2.0})"
    "\n"
    "no JSON\n"
    R"({"step":3,"epoch":1.5,"loss":null,"loss_text":"nan","grad_norm":1.0,"learning_rate":0.1,"tokens":30,"step_seconds":1.0,"memory_bytes":2147483648})"
    "\n"
    R"({"step":4,"diverged":"rolled back","loss":9.0,"grad_norm":1.0,"first_sample":0,"end_sample":4,"order_digest":"","back_to_step":2})"
    "\n"
    R"({"step":4,"epoch":2.0,"eval_accuracy":0.75,"eval_loss":3.0})"
    "\n"
    R"({"step":5,"epoch":2.0,"los)";  // the process was killed

class ReportTest : public ::testing::Test {
 protected:
  ReportTest() { write("metrics.jsonl", kMetrics); }

  void write(const std::string& name, const std::string& text) const { publish_file(folder_.path() / name, text); }
  RunFolder run() const { return read_run(folder_.path()); }

  testing::TemporaryFolder folder_;
};

std::string value_of(const RunFolder& run, const std::string& name) {
  for (const Figure& figure : figures_of(run))
    if (figure.name == name) return figure.value;
  return "none";
}

std::vector<std::string> titles(const std::vector<Chart>& charts) {
  std::vector<std::string> titles;
  for (const Chart& chart : charts) titles.push_back(chart.title);
  return titles;
}

TEST_F(ReportTest, HasTheFiguresOfARun) {
  const RunFolder run = this->run();
  EXPECT_EQ(value_of(run, "updates"), "3");
  EXPECT_EQ(value_of(run, "last loss"), "none") << "the last one was not finite";
  EXPECT_EQ(value_of(run, "last eval_loss"), "3");
  EXPECT_EQ(value_of(run, "best eval_loss"), "2 at 2");
  EXPECT_EQ(value_of(run, "last eval_accuracy"), "0.75");
  EXPECT_EQ(value_of(run, "best eval_accuracy"), "none") << "it is the last";
  EXPECT_EQ(value_of(run, "tokens"), "30");
  EXPECT_EQ(value_of(run, "time in updates"), "4.0s") << "one of 2 s, two of 1 s";
  EXPECT_EQ(value_of(run, "memory of a rank"), "2.0 GiB");
}

TEST_F(ReportTest, DrawsWhatWasMeasured) {
  const std::vector<Chart> charts = charts_of({run()});
  EXPECT_EQ(titles(charts), (std::vector<std::string>{"Loss", "Evaluation: accuracy", "Learning rate", "Gradient norm",
                                                      "Time of an update", "Memory of the largest rank"}));
  const Chart& loss = charts.front();
  ASSERT_EQ(loss.curves.size(), 2u);
  ASSERT_EQ(loss.curves[0].points.size(), 1u) << "neither the lost one nor the update that was rolled back";
  EXPECT_EQ(loss.curves[0].points[0].value, 4);
  ASSERT_EQ(loss.curves[1].points.size(), 2u);
  EXPECT_EQ(loss.curves[1].points[1].step, 4);
  EXPECT_EQ(charts.back().curves[0].points[1].value, 2) << "in GiB";
}

constexpr char kOfRanks[] =
    R"({"step":0,"event":"started","time":1795609642.5,"ranks":2,"lengths":{"source":[{"from":0,"to":9,"samples":3},{"from":10,"to":19,"samples":4}]},"units":[{"name":"encoder.block.0","class":"T5Block","parameters":1500},{"name":"","class":"T5<b>","parameters":7}]})"
    "\n"
    R"({"step":1,"learning_rate":0.1,"order_digest":"a","data_wait_seconds":0.25,"forward_seconds":1.0,"backward_seconds":2.0,"memory_bytes":2147483648,"rank_memory_bytes":[1073741824,2147483648],"peak_share":0.25})"
    "\n"
    R"({"step":1,"event":"saved","time":1795609650})"
    "\n"
    R"({"step":1,"event":"resumed","time":1795609660,"ranks":1,"reached":4})"
    "\n"
    R"({"step":2,"learning_rate":0.1,"order_digest":"a","data_wait_seconds":0.25,"forward_seconds":1.0,"backward_seconds":2.0,"memory_bytes":2147483648,"rank_memory_bytes":[1073741824,2147483648],"peak_share":0.25})"
    "\n";

TEST_F(ReportTest, DrawsTheRanksOfOneRunAndThePhasesOfItsUpdates) {
  write("metrics.jsonl", kOfRanks);
  const std::vector<Chart> charts = charts_of({run()});
  EXPECT_EQ(titles(charts),
            (std::vector<std::string>{"Learning rate", "Share of the measured matmul peak", "Time of an update",
                                      "Time of an update by phase", "Resident memory by rank"}));
  const Chart& phases = charts[3];
  EXPECT_TRUE(phases.is_stacked);
  ASSERT_EQ(phases.curves.size(), 3u);
  EXPECT_EQ(phases.curves[2].name, "waiting for data");
  ASSERT_EQ(charts.back().curves.size(), 2u);
  EXPECT_EQ(charts.back().curves[1].name, "rank 1");
  EXPECT_EQ(charts.back().curves[1].points[0].value, 2) << "in GiB";
  EXPECT_EQ(value_of(run(), "share of matmul peak"), "25.0 %");
  EXPECT_EQ(titles(charts_of({run(), run()})),
            (std::vector<std::string>{"Learning rate", "Share of the measured matmul peak", "Time of an update",
                                      "Memory of the largest rank"}))
      << "of several runs, only what can be compared";
}

TEST_F(ReportTest, DrawsTheSpreadOfManyRanks) {
  write("metrics.jsonl",
        R"({"step":1,"order_digest":"a","memory_bytes":30,"memory_bytes_median":20,"memory_bytes_min":10})"
        "\n");
  const std::vector<Chart> charts = charts_of({run()});
  ASSERT_EQ(titles(charts), (std::vector<std::string>{"Resident memory of the ranks"}));
  EXPECT_EQ(charts[0].curves.size(), 3u);
}

TEST_F(ReportTest, HasWhatItsStartRecorded) {
  write("metrics.jsonl", kOfRanks);
  const RunFolder run = this->run();
  const std::vector<Histogram> histograms = histograms_of(run);
  ASSERT_EQ(histograms.size(), 1u);
  EXPECT_EQ(histograms[0].title, "Lengths: source");
  ASSERT_EQ(histograms[0].bars.size(), 2u);
  EXPECT_EQ(histograms[0].bars[1].samples, 4);
  const std::string page = report_page({run});
  for (const char* part :
       {"encoder.block.0", "1.5k", "T5&lt;b&gt;", "the root", "started with 2 ranks", "2026-11-25 12:27:22 UTC",
        "checkpoint-1 was saved", "resumed with 1 rank from checkpoint-1; updates up to 4 were repeated"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  if (chart_library().empty()) GTEST_SKIP() << "built without Chart.js (libjs-chart.js)";
  EXPECT_NE(page.find(R"({"event":"saved","step":1})"), std::string::npos);
  EXPECT_NE(page.find("id=\"histogram-0\""), std::string::npos);
  EXPECT_EQ(report_page({run, run}).find("\"event\""), std::string::npos) << "marks of several runs would be mixed up";
}

TEST_F(ReportTest, SurvivesAStartThatSomeoneHasEdited) {
  for (const char* odd : {R"("lengths":7,"units":"x")", R"("lengths":[1],"units":[1])",
                          R"("lengths":{"source":{"a":1}},"units":{"a":{"name":1}})"}) {
    write("metrics.jsonl", fmt::format("{{\"step\":0,\"event\":\"started\",{}}}\n", odd));
    EXPECT_NO_THROW(report_page({run()})) << odd;
  }
}

TEST_F(ReportTest, LoadsAgainWhileItIsServedAndTheRunTrains) {
  EXPECT_EQ(report_page({run()}).find("http-equiv=\"refresh\""), std::string::npos) << "a file doesn't change";
  EXPECT_NE(report_page({run()}, true).find("http-equiv=\"refresh\""), std::string::npos);
  write("outcome.json", R"({"code":0,"cause":"done"})");
  EXPECT_EQ(report_page({run()}, true).find("http-equiv=\"refresh\""), std::string::npos) << "it has ended";
}

TEST(ReportCurves, KeepTheirSpikesWhenThinned) {
  std::vector<Point> points;
  for (int64_t step = 1; step <= 100'000; ++step)
    points.push_back({step, step == 77'777 ? 9.0 : step == 5 ? -9.0 : 1.0});
  const std::vector<Point> thin = thinned(points, 100);
  EXPECT_LE(thin.size(), 100u);
  EXPECT_GE(thin.size(), 50u);
  const auto has = [&](int64_t step) {
    return std::any_of(thin.begin(), thin.end(), [&](const Point& point) { return point.step == step; });
  };
  EXPECT_TRUE(has(77'777));
  EXPECT_TRUE(has(5));
  EXPECT_TRUE(std::is_sorted(thin.begin(), thin.end(), [](const Point& a, const Point& b) { return a.step < b.step; }));
  EXPECT_EQ(thinned(thin, 100).size(), thin.size());
}

TEST_F(ReportTest, TakesNoMoreMemoryForAVeryLongRun) {
  std::string text;
  for (int64_t step = 1; step <= 2 * kMostUpdates + 2; ++step)
    text += fmt::format("{{\"step\":{},\"loss\":1.0,\"learning_rate\":1.0}}\n", step);
  text += "{\"step\":7,\"eval_loss\":1.0}\n";
  write("metrics.jsonl", text);
  const std::vector<Record> records = run().records;
  EXPECT_LE(std::ssize(records), kMostUpdates + 2);
  EXPECT_GE(std::ssize(records), kMostUpdates / 2);
  EXPECT_EQ(records.front().step, 1);
  EXPECT_EQ(records.back().step, 2 * kMostUpdates + 2);
  EXPECT_EQ(records[1].step, 5) << "every fourth update";
}

TEST_F(ReportTest, ReadsTheConfigurationWithItsOrigins) {
  write("config.resolved.yaml",
        "# The resolved configuration.\nseed: 42  # job.yaml:3:7\nmodel:\n  path: ''  # default\n"
        "  config:  # job.yaml:5:1\n    d_model: 128\nlogging:\n  report_to: [tensorboard, none]  # --set\n");
  const std::vector<Setting> settings = run().settings;
  ASSERT_EQ(settings.size(), 4u);
  EXPECT_EQ(settings[0].key + "=" + settings[0].value + " " + settings[0].origin, "seed=42 job.yaml:3:7");
  EXPECT_EQ(settings[1].origin, "default");
  EXPECT_EQ(settings[2].key + " " + settings[2].origin, "model.config.d_model job.yaml:5:1");
  EXPECT_EQ(settings[3].value, "[tensorboard, none]");
  write("config.resolved.yaml", "a: [");
  EXPECT_TRUE(run().settings.empty()) << "the rest of the page is made";
}

TEST(ReportDifferences, AreTheOptionsWhoseValuesAreNotTheSame) {
  RunFolder one, two;
  one.settings = {{"output_dir", "a", ""}, {"seed", "1", ""}, {"lora.r", "8", ""}, {"same", "x", ""}};
  two.settings = {{"output_dir", "b", ""}, {"seed", "2", ""}, {"same", "x", "default"}};
  const std::vector<Difference> found = differences_of({one, two});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].key, "seed");
  EXPECT_EQ(found[0].values, (std::vector<std::string>{"1", "2"}));
  EXPECT_EQ(found[1].values, (std::vector<std::string>{"8", ""}));
}

TEST(ReportConfusion, CountsAnswersByLabel) {
  const std::vector<Prediction> answers{{"", "a", "a"}, {"", "b", "a"}, {"", "b", "b"},
                                        {"", "b", "b"}, {"", "?", "b"}, {"", "a", "a"}};
  const Confusion confusion = confusion_of(answers);
  EXPECT_EQ(confusion.labels, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(confusion.answers, (std::vector<std::string>{"a", "b", "other"}));
  EXPECT_EQ(confusion.counts, (std::vector<std::vector<int64_t>>{{2, 1, 0}, {0, 2, 1}}));
  EXPECT_TRUE(confusion_of({answers.begin(), answers.begin() + 5}).labels.empty()) << "texts, not classes";
}

TEST_F(ReportTest, EscapesWhatOthersWrote) {
  write("predictions.jsonl",
        R"({"input":"<script>alert(1)</script>","prediction":"\"><img src=x onerror=alert(1)>","label":"&amp;\u202e"})"
        "\n");
  RunFolder run = this->run();
  run.name = "</title><b>";
  const std::string page = report_page({run});
  EXPECT_NE(page.find("&lt;script&gt;alert(1)&lt;/script&gt;"), std::string::npos);
  EXPECT_NE(page.find("&quot;&gt;&lt;img src=x onerror=alert(1)&gt;"), std::string::npos);
  EXPECT_NE(page.find("&amp;amp;\\u202e"), std::string::npos);
  EXPECT_NE(page.find("<title>&lt;/title&gt;&lt;b&gt;</title>"), std::string::npos);
  for (const char* hostile : {"<script>alert", "<img", "</title><b>"})
    EXPECT_EQ(page.find(hostile), std::string::npos) << hostile;
  EXPECT_EQ(script_json("</script><!--&"), R"("\u003c/script\u003e\u003c!--\u0026")");
  EXPECT_EQ(escaped("a\xff"), "a\xef\xbf\xbd") << "bytes that are not UTF-8";
}

TEST_F(ReportTest, SaysHowTheRunEnded) {
  EXPECT_NE(report_page({run()}).find("not finished when this page was made"), std::string::npos);
  write("outcome.json", R"({"code":5,"cause":"numeric","message":"the loss is inf"})");
  EXPECT_NE(report_page({run()}).find("the loss is inf"), std::string::npos);
  const auto later = std::filesystem::last_write_time(folder_.path() / "outcome.json") + std::chrono::seconds(1);
  std::filesystem::last_write_time(folder_.path() / "metrics.jsonl", later);
  const std::string page = report_page({run()});
  EXPECT_EQ(page.find("the loss is inf"), std::string::npos) << "the run was resumed";
  EXPECT_NE(page.find("rank 3 takes 2.1 times as long as the others"), std::string::npos);
  EXPECT_NE(page.find("the update diverged and was rolled back to update 2"), std::string::npos);
}

TEST_F(ReportTest, IsCompleteInItself) {
  write_report(folder_.path());
  const std::string page = read_file(folder_.path() / "report.html");
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
  for (const char* loaded : {"<link", "<script src", "@import"})
    EXPECT_EQ(page.find(loaded), std::string::npos) << loaded;
  EXPECT_TRUE(page.ends_with("</html>\n"));
  if (chart_library().empty()) GTEST_SKIP() << "built without Chart.js (libjs-chart.js)";
  EXPECT_NE(page.find("Chart.js v"), std::string::npos);
}

TEST(Report, RefusesAFolderThatIsNoRun) {
  const testing::TemporaryFolder folder;
  EXPECT_THROW(read_run(folder.path()), InputError);
}

}  // namespace
}  // namespace trainer::report
