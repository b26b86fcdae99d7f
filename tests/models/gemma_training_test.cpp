// Ten AdamW updates of Gemma 1, 2 and 3 compared with transformers and torch (tests/golden/make_gemma.py).
#include <fstream>

#include <gtest/gtest.h>

#include "tests/support/golden_case.h"
#include "tests/support/source_dir.h"

namespace trainer::testing {
namespace {

nlohmann::json read_golden(const std::string& path) {
  std::ifstream in(source_dir() + "/tests/golden/gemma/" + path);
  return nlohmann::json::parse(in);
}

class GemmaTraining : public ::testing::TestWithParam<std::string> {};

TEST_P(GemmaTraining, TenLossesMatchTransformers) {
  const nlohmann::json expected = read_golden(GetParam() + "/expected.json");
  const bool classifies = GetParam().ends_with("_classifier");
  std::vector<std::vector<int64_t>> sources, labels;
  const nlohmann::json stored = read_golden(GetParam() + "/batch.json");
  for (const auto& sample : stored["samples"]) sources.push_back(sample["source"]), labels.push_back(sample["labels"]);
  models::Batch batch = make_batch(sources, labels);
  if (!classifies) batch.target = batch.source;
  config::Plan plan;
  plan.config.model.path = source_dir() + "/tests/golden/gemma/" + GetParam();
  plan.config.num_processes = 1;
  plan.config.data.task = classifies ? config::Task::kSequenceClassification : config::Task::kCausalLm;
  plan.config.training.weight_decay = 0;
  const auto comm = dist::solo_comm();
  const auto model = make_model(plan, *comm);
  const auto optimizer = optim::make_optimizer(plan.config.training, model->logical_tensors(), *comm);
  ASSERT_EQ(expected["losses"].size(), 10);
  for (const double wanted : expected["losses"]) {
    const double loss = model->update({batch}, batch.target_tokens, {}) / static_cast<double>(batch.target_tokens);
    EXPECT_NEAR(loss / wanted, 1, 1e-4);
    optimizer->step(model->logical_tensors(), expected["learning_rate"]);
    model->zero_grad();
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GemmaTraining,
                         ::testing::Values("gemma", "gemma2", "gemma3", "gemma_classifier", "gemma2_classifier",
                                           "gemma3_classifier"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace trainer::testing
