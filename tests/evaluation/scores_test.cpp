// Scores of predictions against scikit-learn, rouge-score and sacrebleu (tests/golden/make_scores.py).
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/base/metrics.h"
#include "engine/evaluation/scores.h"
#include "tests/support/source_dir.h"

namespace trainer::evaluation {
namespace {

TEST(Scores, AreThoseOfThePackagesThatDefineThem) {
  const auto cases = nlohmann::json::parse(read_file(source_dir() + "/tests/golden/scores.json"));
  ASSERT_EQ(cases.size(), 200U);
  for (size_t i = 0; i < cases.size(); ++i) {
    std::vector<Prediction> predictions;
    for (const auto& pair : cases[i]["pairs"]) predictions.push_back({"", pair[0], pair[1]});
    const auto found = scores(predictions, metric_names());
    const auto& expected = cases[i]["scores"];
    EXPECT_EQ(found.size(), expected.size());
    for (const auto& [name, value] : expected.items())
      EXPECT_NEAR(found.at("eval_" + name), value.get<double>(), 1e-9) << name << " of case " << i;
  }
}

TEST(Scores, OnlyTheRequestedOnesAreGiven) {
  const std::vector<Prediction> predictions{{"", "a", "a"}, {"", "a", "b"}};
  EXPECT_EQ(scores(predictions, {"loss", "f1_macro"}),
            (std::map<std::string, double>{{"eval_f1_macro", (2.0 / 3 + 0) / 2}}));
  EXPECT_TRUE(scores({}, {"accuracy", "bleu"}).at("eval_accuracy") == 0);
}

TEST(Scores, AMetricCanBeAdded) {
  EXPECT_EQ(added_metrics(), "");
  EXPECT_THROW(add_metric("rouge1", false, {}), ConfigError);
  EXPECT_THROW(add_metric("two words", false, {}), ConfigError);
  add_metric("samples", /*lower_is_better=*/true,
             [](const std::vector<Prediction>& all) { return static_cast<double>(all.size()); });
  EXPECT_THROW(add_metric("samples", true, {}), ConfigError);
  EXPECT_EQ(added_metrics(), "samples:lower");
  EXPECT_TRUE(lower_is_better("samples"));
  EXPECT_EQ(scores({{"", "a", "a"}, {"", "a", "b"}}, {"samples"}), (std::map<std::string, double>{{"eval_samples", 2}}));
  EXPECT_EQ(scores({{"", "a", "a"}}, {"loss"}).count("eval_samples"), 0U);
}

}  // namespace
}  // namespace trainer::evaluation
