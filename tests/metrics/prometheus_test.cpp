#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "engine/metrics/latest_values.h"
#include "engine/metrics/metrics_log.h"
#include "engine/metrics/prometheus_page.h"

namespace trainer::metrics {
namespace {

std::string page_of(const LatestValues& values) {
  PrometheusPage page;
  values.add_to(page);
  return page.text();
}

bool has_line(const std::string& page, const std::string& line) {
  return ("\n" + page).find("\n" + line + "\n") != std::string::npos;
}

TEST(PrometheusPage, WritesHelpTypeAndSamples) {
  PrometheusPage page;
  page.begin("a_bytes", PrometheusKind::kGauge, "What\\why\nwhen.");
  page.add(1.5, {{"rank", "0"}, {"name", "a\"b\\c\nd"}});
  page.add(4096);
  page.add("b_total", PrometheusKind::kCounter, "Count.", 3);
  EXPECT_EQ(page.text(),
            "# HELP a_bytes What\\\\why\\nwhen.\n# TYPE a_bytes gauge\n"
            "a_bytes{rank=\"0\",name=\"a\\\"b\\\\c\\nd\"} 1.5\na_bytes 4096\n"
            "# HELP b_total Count.\n# TYPE b_total counter\nb_total 3\n");
}

TEST(PrometheusPage, WritesEveryNumber) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  PrometheusPage page;
  page.begin("x", PrometheusKind::kGauge, "x");
  for (const double value : {std::nan(""), kInfinity, -kInfinity, 0.1, 1e-300, 9007199254740992.0}) page.add(value);
  EXPECT_TRUE(page.text().ends_with("\nx NaN\nx +Inf\nx -Inf\nx 0.1\nx 1e-300\nx 9007199254740992\n")) << page.text();
}

TEST(PrometheusPage, NamesHaveOnlyAllowedCharacters) {
  EXPECT_EQ(prometheus_name("eval_rouge-L/f1 é"), "eval_rouge_L_f1___");
  EXPECT_EQ(prometheus_name("1st"), "_1st");
}

TEST(LatestValues, AreEmptyBeforeTheFirstLine) {
  EXPECT_EQ(page_of({}), "");
}

TEST(LatestValues, ComeFromTheLinesOfMetrics) {
  LatestValues values;
  values.take(to_json_line(StepRecord{.step = 9, .loss = 2.5, .tokens = 300, .samples = 24}));
  values.take(
      to_json_line(StepRecord{.step = 10, .loss = std::nan(""), .grad_norm = 0.5, .tokens = 320, .samples = 32}));
  values.take(to_json_line(EvaluationRecord{10, 1.0, {{"eval_loss", 1.25}}}));
  const std::string page = page_of(values);
  for (const char* line : {"trainer_step 10", "trainer_loss NaN", "trainer_grad_norm 0.5", "trainer_tokens_total 320",
                           "trainer_samples_total 32", "trainer_eval_loss 1.25", "# TYPE trainer_tokens_total counter",
                           "# TYPE trainer_eval_loss gauge", "trainer_diverged_updates_total 0"})
    EXPECT_TRUE(has_line(page, line)) << line << "\n" << page;
  EXPECT_EQ(page.find("loss_scale"), std::string::npos) << "only fp16 has one";
}

TEST(LatestValues, HaveTheTimeByPhaseAndTheShareOfThePeak) {
  LatestValues values;
  values.take(
      to_json_line(StepRecord{.step = 10, .phase_seconds = {{"forward", 0.5}, {"backward", 1.5}}, .peak_share = 0.25}));
  const std::string page = page_of(values);
  for (const char* line :
       {"trainer_step_phase_seconds{phase=\"forward\"} 0.5", "trainer_step_phase_seconds{phase=\"backward\"} 1.5",
        "# TYPE trainer_step_phase_seconds gauge", "trainer_matmul_peak_share_ratio 0.25"})
    EXPECT_TRUE(has_line(page, line)) << line << "\n" << page;
}

TEST(LatestValues, TotalsDoNotGoBackAfterARestart) {
  LatestValues values;
  values.take(to_json_line(StepRecord{.step = 10, .tokens = 300}));
  values.take(to_json_line(StepRecord{.step = 6, .tokens = 180}));
  EXPECT_TRUE(has_line(page_of(values), "trainer_step 6"));
  EXPECT_TRUE(has_line(page_of(values), "trainer_tokens_total 300"));
}

TEST(LatestValues, CountUpdatesThatDiverged) {
  LatestValues values;
  values.take(to_json_line(StepRecord{.step = 10, .loss = 2}));
  values.take(to_json_line(DivergenceRecord{.step = 11, .loss = 1e9}));
  values.take(to_json_line(StragglerRecord{.step = 12, .rank = 1, .factor = 2}));
  values.take(to_json_line(SaveRecord{9}));
  const std::string page = page_of(values);
  EXPECT_TRUE(has_line(page, "trainer_diverged_updates_total 1")) << page;
  EXPECT_TRUE(has_line(page, "trainer_step 10")) << "the diverged update was not applied";
  EXPECT_TRUE(has_line(page, "trainer_loss 2"));
}

TEST(LatestValues, IgnoreWhatIsNotARecord) {
  LatestValues values;
  for (const char* line : {"", "{", "[1]", "null", "{\"a\":{\"b\":1}}", "{\"step_text\":\"nan\"}"}) values.take(line);
  EXPECT_EQ(page_of(values), "");
}

}  // namespace
}  // namespace trainer::metrics
