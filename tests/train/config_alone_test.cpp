// A config.json alone is enough to plan a run, without weights, samples or GPUs.
#include <algorithm>
#include <chrono>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/train/check/check_report.h"
#include "tests/support/temporary_folder.h"

namespace trainer::train {
namespace {

constexpr const char* kT5Base = R"({"model_type": "t5", "vocab_size": 32128, "d_model": 768, "d_kv": 64, "d_ff": 3072,
    "num_layers": 12, "num_decoder_layers": 12, "num_heads": 12})";
constexpr const char* kLlama13b = R"({"model_type": "llama", "vocab_size": 32000, "hidden_size": 5120,
    "intermediate_size": 13824, "num_hidden_layers": 40, "num_attention_heads": 40, "max_position_embeddings": 4096,
    "torch_dtype": "float16", "tie_word_embeddings": false})";

class ConfigAlone : public ::testing::Test {
 protected:
  config::Plan llama_on_eight_gpus() const;
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
  // An encoder block has 4 attention matrices, 2 feed-forward matrices and 2 norms; a decoder block has a second
  // attention. The first blocks also have a bias table. The root has the embedding and the two final norms.
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
    EXPECT_GT(report.memory.communication, 4 * units[0]) << "the root is gathered for a moment";
    EXPECT_EQ(report.missing.size(), 3U);
    EXPECT_EQ(report.run.length.updates, 0);
    EXPECT_EQ(report.data.samples, 0);
  }
}

TEST_F(ConfigAlone, PlansOffloadedShardsInHostMemory) {
  config::Plan plan = plan_of(kT5Base, config::Task::kSeq2SeqLm);
  plan.config.distributed_type = config::DistributedType::kFsdp;
  plan.config.num_processes = 2;
  constexpr int64_t kElements = 111'451'776;  // of a rank, as above
  const MemoryPlan before = check_report(plan, config::gpu_memory_named("H100")).memory;
  EXPECT_EQ(before.held(), 16 * kElements);
  EXPECT_EQ(before.host, 0);
  plan.config.fsdp_config.offload_params = true;
  const MemoryPlan after = check_report(plan, config::gpu_memory_named("H100")).memory;
  EXPECT_EQ(after.held(), 0);
  EXPECT_GE(after.host, 16 * kElements);
  EXPECT_LT(after.host, 17 * kElements) << "and one tensor of an update or an export";
  EXPECT_LT(after.training(), before.training() - 12 * kElements);
  // On the CPU, they are in host memory either way.
  plan.config.use_cpu = true;
  const MemoryPlan on_cpu = check_report(plan).memory;
  EXPECT_EQ(on_cpu.weights, 4 * kElements);
  EXPECT_EQ(on_cpu.host, 0);
}

TEST_F(ConfigAlone, CountsAnUntiedHead) {
  std::string untied = kT5Base;
  untied.insert(1, R"("tie_word_embeddings": false, )");
  EXPECT_EQ(check_report(plan_of(untied.c_str(), config::Task::kSeq2SeqLm)).model.parameters,
            222'903'552 + 32128 * 768);
}

TEST_F(ConfigAlone, Llama13bWithTensorParallelismOfEight) {
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

TEST_F(ConfigAlone, FrozenWeightsHaveTheDtypeOfConfigJson) {
  config::Plan plan = plan_of(kLlama13b, config::Task::kCausalLm);
  plan.config.lora.emplace().target_modules.names = {"q_proj"};
  const int64_t parameters = 13'015'864'320, adapters = 40 * 8 * (5120 + 5120);
  EXPECT_EQ(check_report(plan).memory.weights, 2 * parameters + 4 * adapters);
  plan.config.model.dtype = "float32";
  EXPECT_EQ(check_report(plan).memory.weights, 4 * parameters + 4 * adapters);
}

/// A model of 7 billion parameters (LLaMA's first size) on eight GPUs, 8 samples each at a time.
constexpr const char* kLlama7b = R"({"model_type": "llama", "vocab_size": 32000, "hidden_size": 4096,
    "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32, "max_position_embeddings": 16384,
    "torch_dtype": "float16", "tie_word_embeddings": false})";

config::Plan ConfigAlone::llama_on_eight_gpus() const {
  config::Plan plan = plan_of(kLlama7b, config::Task::kCausalLm);
  plan.config.distributed_type = config::DistributedType::kFsdp;
  plan.config.num_processes = 8;
  plan.config.data.max_length = 4096;
  plan.config.training.per_device_train_batch_size = 8;
  return plan;
}

double gib(int64_t bytes) {
  return static_cast<double>(bytes) / static_cast<double>(int64_t{1} << 30);
}

TEST_F(ConfigAlone, PlansTheGpuLayersForGpus) {
  config::Plan plan = llama_on_eight_gpus();
  plan.config.training.gradient_checkpointing = true;
  const CheckReport on_gpus = check_report(plan);
  plan.config.use_cpu = true;
  const CheckReport on_cpus = check_report(plan);
  EXPECT_TRUE(on_gpus.on_gpus);
  EXPECT_FALSE(on_cpus.on_gpus);
  EXPECT_EQ(on_gpus.memory.weights, on_cpus.memory.weights);
  EXPECT_EQ(on_gpus.memory.optimizer, on_cpus.memory.optimizer);
  EXPECT_LT(on_gpus.memory.gradients, on_cpus.memory.gradients) << "there, ranks share the gradients of units";
  // Fused attention holds no scores, and the reference layer those of a few heads.
  const double scores = gib(int64_t{8} * 32 * 4096 * 4096 * 4);
  EXPECT_EQ(on_gpus.memory.attention, "memory-efficient attention (activations in fp32)");
  EXPECT_LT(gib(on_gpus.memory.activations), gib(on_cpus.memory.activations) + scores / 4);
  plan.config.use_cpu = false;
  plan.config.deterministic = true;
  plan_of((R"({"attention_dropout": 0.1, )" + std::string(kLlama7b).substr(1)).c_str(), config::Task::kCausalLm);
  EXPECT_LT(gib(check_report(plan).memory.activations), gib(on_gpus.memory.activations) + scores / 4);
}

TEST_F(ConfigAlone, TooMuchForAGpuNamesWhatFits) {
  config::Plan plan = llama_on_eight_gpus();
  const config::GpuMemory card = config::gpu_memory_named("H100");
  const CheckReport report = check_report(plan, card);
  ASSERT_TRUE(report.gpu);
  EXPECT_FALSE(report.gpu->fits);
  ASSERT_FALSE(report.gpu->alternatives.empty());
  const std::string message = too_much_memory(report, plan);
  EXPECT_LE(std::count(message.begin(), message.end(), '\n'), 5) << message;
  EXPECT_NE(message.find(" of H100 80GB (79.1 GiB in total)"), std::string::npos) << message;
  const nlohmann::json gpu = to_json(report, plan).at("memory").at("gpu");
  EXPECT_EQ(gpu.at("fits"), false);
  EXPECT_EQ(gpu.at("alternatives").size(), report.gpu->alternatives.size());

  // The named batch size fits, and one sample more would not.
  const std::string option = "training.per_device_train_batch_size: ";
  const auto batch = std::find_if(report.gpu->alternatives.begin(), report.gpu->alternatives.end(),
                                  [&](const train::Alternative& other) { return other.change.starts_with(option); });
  ASSERT_NE(batch, report.gpu->alternatives.end()) << message;
  const int64_t size = std::stoll(batch->change.substr(option.size()));
  plan.config.training.per_device_train_batch_size = size;
  EXPECT_TRUE(check_report(plan, card).gpu->fits);
  EXPECT_EQ(check_report(plan, card).memory.peak(), batch->peak);
  plan.config.training.per_device_train_batch_size = size + 1;
  EXPECT_FALSE(check_report(plan, card).gpu->fits);
}

TEST_F(ConfigAlone, PredictsTheSpeedOf7bOn128GpusInSeconds) {
  config::Plan plan = llama_on_eight_gpus();
  plan.config.num_processes = 128;
  plan.config.num_machines = 16;
  plan.config.mixed_precision = config::MixedPrecision::kBf16;
  plan.config.training.gradient_checkpointing = true;
  const auto begin = std::chrono::steady_clock::now();
  const CheckReport report =
      check_report(plan, config::gpu_memory_named("H200"), Cluster{config::card_named("--device", "H200"), 8});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  EXPECT_TRUE(std::any_of(report.missing.begin(), report.missing.end(),
                          [](const std::string& text) { return text.starts_with("main_process_ip: "); }));
  const double parameters = 32 * (4.0 * 4096 * 4096 + 3.0 * 4096 * 11008) + 4096.0 * 32000, tokens = 8.0 * 4096;
  const double attention = 3 * 32 * 4.0 * 8 * 32 * 4096 * 4096 * 128;
  EXPECT_DOUBLE_EQ(report.roofline->model_flops, 6 * parameters * tokens + attention);
}

TEST_F(ConfigAlone, PlansOneProcessForTheNamedGpu) {
  config::Plan plan = plan_of(kT5Base, config::Task::kSeq2SeqLm);
  EXPECT_FALSE(check_report(plan).on_gpus) << "on a machine without GPUs it trains on the CPU";
  const CheckReport report = check_report(plan, config::gpu_memory_named("24"));
  EXPECT_TRUE(report.on_gpus);
  EXPECT_TRUE(report.gpu->fits);
  EXPECT_NE(to_text(report, plan).find("of the 24 GiB of a GPU with 24 GiB"), std::string::npos)
      << to_text(report, plan);
}

TEST_F(ConfigAlone, RefusesSamplesLongerThanThePositionsOnlyIfConfigured) {
  config::Plan plan = plan_of(kLlama13b, config::Task::kCausalLm);  // 4096 positions
  plan.config.data.max_length = 8192;
  const CheckReport by_default = check_report(plan);
  EXPECT_EQ(by_default.longest.batches[0].source.front(), 4096);
  EXPECT_NE(by_default.missing.back().find("assumed to have 4096 tokens"), std::string::npos)
      << by_default.missing.back();
  plan.origins["data.max_length"] = "default";
  EXPECT_NO_THROW(check_report(plan));
  plan.origins["data.max_length"] = "job.yaml:7:15";
  try {
    check_report(plan);
    ADD_FAILURE() << "planned with shorter samples";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(),
                 "data.max_length is 8192, and samples can be that long, but LlamaForCausalLM has 4096 "
                 "positions\n  set data.max_length to 4096 or less, or use a model with more positions");
  }
  plan.config.data.max_length = 4096;
  EXPECT_NO_THROW(check_report(plan));
  plan.config.data.max_length = 8192;
  std::string scaled = kLlama13b;
  scaled.insert(1, R"("rope_scaling": {"type": "linear", "factor": 2.0}, )");
  std::ofstream(plan.config.model.path + "/config.json") << scaled;
  EXPECT_EQ(check_report(plan).longest.batches[0].source.front(), 8192);
}

TEST_F(ConfigAlone, ThePageListsWhatIsMissing) {
  config::Plan plan = plan_of(kT5Base, config::Task::kSeq2SeqLm);
  const CheckReport report = check_report(plan);
  EXPECT_EQ(report.missing.size(), 2U) << "no GPUs are requested";
  const std::string text = to_text(report, plan);
  EXPECT_NE(text.find("missing       the weights of "), std::string::npos) << text;
  EXPECT_EQ(text.find("learning rate"), std::string::npos) << text;
  EXPECT_EQ(text.find("histogram"), std::string::npos) << text;
}

TEST_F(ConfigAlone, ReadsWeightsThatExist) {
  const config::Plan plan = plan_of(kT5Base, config::Task::kSeq2SeqLm);
  std::ofstream(folder_.path() / "model.safetensors") << "no weights";
  EXPECT_THROW(check_report(plan), InputError);
}

}  // namespace
}  // namespace trainer::train
