// The logits that trainer-worker dumps for other programs give the golden loss.
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

TEST(DumpLogits, GivesTheGoldenLoss) {
  const testing::TemporaryFolder folder;
  const std::string golden = source_dir() + "/tests/golden/t5/v1_0", output = (folder.path() / "logits").string();
  const auto batches = nlohmann::json::parse(read_file(golden + "/batches.json")).at("batches");
  const std::string file = (folder.path() / "samples.json").string();
  publish_file(file, batches.at(0).dump());
  ASSERT_EQ(dump_logits_command({"--model", golden, "--samples", file, "--output", output}), kDone);
  const tensorfile::SafetensorsFile logits(output);
  const auto& samples = batches.at(0).at("samples");
  double loss = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    const auto labels = samples[i].at("labels").get<std::vector<int64_t>>();
    const at::Tensor dumped = logits.tensor("logits_" + std::to_string(i));
    ASSERT_EQ(dumped.size(0), static_cast<int64_t>(labels.size()));
    loss += nn::cross_entropy_sum(dumped, at::tensor(labels, at::kLong)).item<double>();
  }
  const auto expected = nlohmann::json::parse(read_file(golden + "/expected.json"));
  EXPECT_NEAR(loss / expected.at("loss_sum").get<double>(), 1, 1e-5);
}

}  // namespace
}  // namespace trainer::worker
