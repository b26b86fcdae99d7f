// A config.json alone is enough to plan a run: of what has no weights here, no samples, and no GPUs to run on.
#include <fstream>

#include <gtest/gtest.h>

#include "engine/base/errors.h"
#include "engine/worker/check_report.h"
#include "tests/support/temporary_folder.h"

namespace trainer::worker {
namespace {

constexpr const char* kT5Base = R"({"model_type": "t5", "vocab_size": 32128, "d_model": 768, "d_kv": 64, "d_ff": 3072,
    "num_layers": 12, "num_decoder_layers": 12, "num_heads": 12})";
constexpr const char* kLlama13b = R"({"model_type": "llama", "vocab_size": 32000, "hidden_size": 5120,
    "intermediate_size": 13824, "num_hidden_layers": 40, "num_attention_heads": 40, "max_position_embeddings": 4096,
    "torch_dtype": "float16", "tie_word_embeddings": false})";

class ConfigAlone : public ::testing::Test {
 protected:
  config::Plan plan_of(const char* config_json, config::Task task) const {
    std::ofstream(folder_.path() / "config.json") << config_json;
    config::Plan plan;
    plan.source = "job.yaml";
    plan.config.model.path = folder_.path().string();
    plan.config.tokenizer.path = plan.config.model.path;
    plan.config.data.task = task;
    plan.config.num_processes = 1;
    return plan;
  }

  testing::TemporaryFolder folder_;
};

void expect_adamw(const train::MemoryPlan& memory, int64_t elements) {
  EXPECT_EQ(memory.weights, 4 * elements);
  EXPECT_EQ(memory.gradients, 4 * elements);
  EXPECT_EQ(memory.optimizer, 8 * elements);
}

TEST_F(ConfigAlone, T5BaseUnderFsdpOnTwoToEightGpus) {
  // An encoder block has 4 matrices of attention, 2 of its feed-forward and 2 norms; a decoder block has a second
  // attention. The first ones have a table of biases too. The embedding and two last norms are left for the root.
  const int64_t attention = 4 * 768 * 768, feed_forward = 2 * 768 * 3072, biases = 32 * 12;
  const int64_t encoder = attention + feed_forward + 2 * 768, decoder = 2 * attention + feed_forward + 3 * 768;
  std::vector<int64_t> units{32128 * 768 + 2 * 768, encoder + biases, decoder + biases};
  units.insert(units.end(), 11, encoder);
  units.insert(units.end(), 11, decoder);

  config::Plan plan = plan_of(kT5Base, config::Task::kSeq2SeqLm);
  plan.config.distributed_type = config::DistributedType::kFsdp;
  for (int64_t ranks = 2; ranks <= 8; ++ranks) {
    SCOPED_TRACE(ranks);
    plan.config.num_processes = ranks;
    const CheckReport report = check_report(plan);
    EXPECT_EQ(report.model.parameters, 222'903'552);
    EXPECT_EQ(report.units.size(), 25U);
    int64_t elements = 0;
    for (const int64_t unit : units) elements += (unit + 32 * ranks - 1) / (32 * ranks) * 32;  // 128 bytes at least
    expect_adamw(report.memory, elements);
    EXPECT_GT(report.memory.activations, 0);
    EXPECT_GT(report.memory.communication, 4 * units[0]) << "the root is whole for a moment";
    EXPECT_EQ(report.missing.size(), 3U);
    EXPECT_EQ(report.run.length.updates, 0);
    EXPECT_EQ(report.data.samples, 0);
  }
}

TEST_F(ConfigAlone, Llama13bWithEachLayerSharedByEight) {
  config::Plan plan = plan_of(kLlama13b, config::Task::kCausalLm);
  plan.config.distributed_type = config::DistributedType::kMultiGpu;
  plan.config.num_processes = 8;
  plan.config.parallelism_config.emplace().tp_size = 8;
  plan.config.training.max_steps = 100;
  plan.config.training.per_device_train_batch_size = 1;
  const CheckReport report = check_report(plan);
  EXPECT_EQ(report.model.parameters, 13'015'864'320);
  const int64_t layer = (4 * 5120 * 5120 + 3 * 5120 * 13824) / 8, norms = 81 * 5120, vocabulary = 32000 / 8 * 5120;
  expect_adamw(report.memory, 40 * layer + norms + 2 * vocabulary);
  ASSERT_EQ(report.longest.batches.size(), 1U);
  EXPECT_EQ(report.longest.batches[0].source, std::vector<int64_t>{1024}) << "data.max_length";
  EXPECT_EQ(report.run.length.updates, 100);
  EXPECT_EQ(report.run.learning_rate.size(), 5U);
}

TEST_F(ConfigAlone, FrozenWeightsHaveTheDtypeThatItNames) {
  config::Plan plan = plan_of(kLlama13b, config::Task::kCausalLm);
  plan.config.lora.emplace().target_modules.names = {"q_proj"};
  const int64_t parameters = 13'015'864'320, adapters = 40 * 8 * (5120 + 5120);
  EXPECT_EQ(check_report(plan).memory.weights, 2 * parameters + 4 * adapters);
  plan.config.model.dtype = "float32";
  EXPECT_EQ(check_report(plan).memory.weights, 4 * parameters + 4 * adapters);
}

TEST_F(ConfigAlone, ThePageSaysWhatIsMissing) {
  config::Plan plan = plan_of(kT5Base, config::Task::kSeq2SeqLm);
  const CheckReport report = check_report(plan);
  EXPECT_EQ(report.missing.size(), 2U) << "no GPUs are asked for";
  const std::string text = to_text(report, plan);
  EXPECT_NE(text.find("missing       the weights of "), std::string::npos) << text;
  EXPECT_EQ(text.find("learning rate"), std::string::npos) << text;
  EXPECT_EQ(text.find("histogram"), std::string::npos) << text;
}

TEST_F(ConfigAlone, WeightsThatAreThereAreRead) {
  const config::Plan plan = plan_of(kT5Base, config::Task::kSeq2SeqLm);
  std::ofstream(folder_.path() / "model.safetensors") << "no weights";
  EXPECT_THROW(check_report(plan), InputError);
}

}  // namespace
}  // namespace trainer::worker
