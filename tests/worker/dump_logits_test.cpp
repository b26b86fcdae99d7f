// The logits that trainer-worker dumps for other programs give the golden loss.
#include <algorithm>

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/tensorfile/safetensors_file.h"
#include "engine/worker/commands.h"
#include "models/nn/cross_entropy.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_folder.h"

namespace trainer::worker {
namespace {

using Json = nlohmann::json;

/// Dumps the logits of `samples` and sums their cross-entropy with the samples' labels.
double dumped_loss(std::vector<std::string> model, const Json& samples) {
  const testing::TemporaryFolder folder;
  const std::string file = (folder.path() / "samples.json").string(), output = (folder.path() / "logits").string();
  publish_file(file, Json{{"samples", samples}}.dump());
  model.insert(model.end(), {"--samples", file, "--output", output});
  EXPECT_EQ(dump_logits_command(model), kDone);
  const tensorfile::SafetensorsFile logits(output);
  double loss = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    const auto labels = samples[i].at("labels").get<std::vector<int64_t>>();
    const at::Tensor dumped = logits.tensor("logits_" + std::to_string(i));
    EXPECT_EQ(dumped.size(0), static_cast<int64_t>(labels.size()));
    loss += nn::cross_entropy_sum(dumped, at::tensor(labels, at::kLong)).item<double>();
  }
  return loss;
}

Json golden_json(const std::string& path) {
  return Json::parse(read_file(source_dir() + "/tests/golden/" + path));
}

TEST(DumpLogits, GivesTheGoldenLoss) {
  const std::string name = "t5/v1_0";
  const Json samples = golden_json(name + "/batches.json").at("batches").at(0).at("samples");
  const double expected = golden_json(name + "/expected.json").at("loss_sum");
  EXPECT_NEAR(dumped_loss({"--model", source_dir() + "/tests/golden/" + name}, samples) / expected, 1, 1e-5);
}

class DumpLogitsOf : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(DumpLogitsOf, GiveTheGoldenLossWithoutReadingLabels) {
  const std::string name = GetParam().first;
  const double expected = golden_json(name + "/expected.json").at("loss_sum");
  const double loss = dumped_loss({"--model", source_dir() + "/tests/golden/" + name, "--task", GetParam().second},
                                  golden_json(name + "/batch.json").at("samples"));
  EXPECT_NEAR(loss / expected, 1, 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Tasks, DumpLogitsOf,
                         ::testing::Values(std::pair{"gpt2/causal", "causal_lm"}, std::pair{"llama/qwen3", "causal_lm"},
                                           std::pair{"gpt2/classes", "sequence_classification"},
                                           std::pair{"bert/named", "sequence_classification"}),
                         [](const auto& info) {
                           std::string name = info.param.first;
                           std::replace(name.begin(), name.end(), '/', '_');
                           return name;
                         });

TEST(DumpLogits, RefusesUnknownTasks) {
  EXPECT_THROW(dump_logits_command({"--model", "m", "--task", "causal", "--samples", "s", "--output", "o"}),
               ConfigError);
}

}  // namespace
}  // namespace trainer::worker
