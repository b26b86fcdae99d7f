// Beam search against transformers (tests/golden/make_beams.py): all samples of a case are one batch here.
#include "engine/evaluation/beam_search.h"

#include <cmath>
#include <fstream>

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/batching/token_batch.h"
#include "engine/evaluation/generate.h"
#include "tests/support/golden_case.h"
#include "tests/support/source_dir.h"

namespace trainer::testing {
namespace {

using evaluation::Beams;
using evaluation::BeamSearch;
using Texts = std::vector<std::vector<int64_t>>;

Beams::Stop stop_of(const nlohmann::json& value) {
  if (value == "never") return Beams::Stop::kNever;
  return value == true ? Beams::Stop::kWhenFull : Beams::Stop::kHeuristic;
}

TEST(BeamSearchGolden, FindsTheTextsOfTransformers) {
  const at::NoGradGuard no_grad;
  std::ifstream file(source_dir() + "/tests/golden/beams.json");
  const nlohmann::json golden = nlohmann::json::parse(file);
  const auto comm = dist::solo_comm();
  ASSERT_GE(golden["cases"].size(), 30U);
  for (const nlohmann::json& test : golden["cases"]) {
    const std::string name = test["model"];
    config::Plan plan;
    plan.config.num_processes = 1;
    plan.config.model.path = source_dir() + "/tests/golden/" + name;
    plan.config.data.task = name.starts_with("t5/") ? config::Task::kSeq2SeqLm : config::Task::kCausalLm;
    const auto model = make_model(plan, *comm);
    evaluation::Generation options{.max_new_tokens = golden["max_new_tokens"], .end_tokens = test["ends"]};
    options.sampling.repetition_penalty = test["repetition_penalty"];
    options.beams = {
        .count = test["num_beams"], .length_penalty = test["length_penalty"], .stop = stop_of(test["early_stopping"])};
    const auto batch = batching::token_batch(test["sources"], {}, model->model().task());
    for (const int64_t returned : {int64_t{1}, options.beams.count - 1, options.beams.count}) {
      options.beams.returned = returned;
      std::vector<float> scores;
      options.scores = &scores;
      const Texts texts = evaluation::generate(*model, batch, {}, options);
      const std::string what = fmt::format("{}, {} of {} beams, early_stopping {}", name, returned,
                                           options.beams.count, test["early_stopping"].dump());
      ASSERT_EQ(texts.size(), test["sources"].size() * static_cast<size_t>(returned)) << what;
      ASSERT_EQ(scores.size(), texts.size()) << what;
      for (size_t i = 0; i < texts.size(); ++i) {
        const size_t sample = i / static_cast<size_t>(returned), place = i % static_cast<size_t>(returned);
        EXPECT_EQ(texts[i], test["texts"][sample][place].get<std::vector<int64_t>>()) << what;
        EXPECT_NEAR(scores[i], test["scores"][sample][place].get<float>(), 1e-5 * (1 + std::abs(scores[i]))) << what;
      }
    }
  }
}

TEST(BeamSearch, FindsATextThatBeginsWithALessLikelyToken) {
  BeamSearch search({.count = 2}, {0}, 2);
  const float first[] = {-9, -0.5F, -1, -9, -9, -9};  // the second beam is not used yet
  auto steps = search.advance(first, 3);
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[0].token, 1);
  EXPECT_EQ(steps[1].token, 2);
  EXPECT_EQ(steps[1].beam, 0);
  const float second[] = {-2, -3, -4, -0.1F, -5, -6};
  search.advance(second, 3);
  EXPECT_TRUE(search.is_done());
  EXPECT_EQ(search.best()[0].tokens, (std::vector<int64_t>{2}));
  EXPECT_FLOAT_EQ(search.best()[0].score, (-1 - 0.1F) / 2);
}

TEST(BeamSearch, EndsWhenNoTextCanBecomeBetter) {
  BeamSearch search({.count = 2}, {0}, 100);
  const float sure[] = {-0.01F, -8, -9, -9, -9, -9};
  search.advance(sure, 3);
  EXPECT_FALSE(search.is_done()) << "only one text is finished";
  const float again[] = {-0.01F, -8, -9, -0.01F, -8, -9};
  search.advance(again, 3);
  EXPECT_TRUE(search.is_done());
  EXPECT_TRUE(search.best()[0].tokens.empty()) << "the end came first";
}

}  // namespace
}  // namespace trainer::testing
