#include "engine/train/peak_share.h"

#include <cmath>
#include <cstdlib>

#include <gtest/gtest.h>

#include "engine/base/files.h"
#include "engine/prepare/inputs.h"
#include "engine/train/profile/known_peak.h"
#include "engine/train/sample_lengths.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_folder.h"

namespace trainer::train {
namespace {

constexpr double kVocabulary = 512, kWidth = 32, kInner = 64, kLayers = 2;

config::Plan plan_of_llama() {
  config::Plan plan;
  plan.source = "job.yaml";
  config::Config& c = plan.config;
  c.distributed_type = config::DistributedType::kNo;
  c.num_processes = 1;
  c.use_cpu = true;
  c.model.config =
      R"({"model_type": "llama", "vocab_size": 512, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
          "num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 64, "rms_norm_eps": 1e-6,
          "tie_word_embeddings": false})";
  c.tokenizer.path = source_dir() + "/tests/golden/tokenizer/unigram";
  c.data.task = config::Task::kCausalLm;
  c.data.train.path = {source_dir() + "/data/examples/reports.txt"};
  c.data.train.format = config::DataFormat::kText;
  c.data.source = "{text}";
  c.data.target = "";
  c.data.max_length = 20;
  static const testing::TemporaryFolder cache;
  c.data.cache_dir = cache.path().string();
  return plan;
}

TEST(PeakShare, CountsTheFlopsOfAModel) {
  const config::Plan plan = plan_of_llama();
  const prepare::Inputs inputs = prepare::load_inputs(plan);
  const SampleLengths lengths = sample_lengths(*inputs.datasets.train);
  const double length = std::round(lengths.source.mean), learned = std::round(lengths.target.mean);
  const double linear = kLayers * (4 * kWidth * kWidth + 3 * kWidth * kInner) + kVocabulary * kWidth * learned / length;
  const double attention = kLayers * 4 * length * kWidth;  // of a token: two products with each of the others
  EXPECT_NEAR(flops_per_token(plan, inputs.datasets), 6 * linear + 3 * attention, 1e-6 * linear);
  config::Plan on_ranks = plan;
  on_ranks.config.distributed_type = config::DistributedType::kMultiCpu;
  on_ranks.config.num_processes = 4;
  on_ranks.config.parallelism_config.emplace().tp_size = 2;
  EXPECT_NEAR(flops_per_token(on_ranks, inputs.datasets), 6 * linear + 3 * attention, 1e-6 * linear)
      << "the same, whatever the ranks";
  config::Plan adapted = plan;
  adapted.config.lora.emplace().target_modules.names = {"q_proj"};
  const double share = flops_per_token(adapted, inputs.datasets) / (6 * linear + 3 * attention);
  EXPECT_GT(share, 0.65) << "two thirds for frozen weights, and the adapter";
  EXPECT_LT(share, 0.8);
}

TEST(PeakShare, RanksShareTheCpusOfTheirMachine) {
  EXPECT_EQ(peak_of_run(10, /*ranks=*/4, /*machines=*/1, /*threads=*/2, /*cpus=*/8), 40);
  EXPECT_EQ(peak_of_run(10, 4, 1, 1, 2), 20) << "two at a time";
  EXPECT_EQ(peak_of_run(10, 4, 2, 1, 2), 40) << "two on each machine";
  EXPECT_EQ(peak_of_run(10, 1, 1, 4, 2), 10) << "more threads than CPUs";
  EXPECT_EQ(peak_of_run(10, 4, 1, 1, 0), 40) << "devices of their own";
}

TEST(PeakShare, IsRememberedOnTheMachine) {
  const testing::TemporaryFolder cache;
  setenv("XDG_CACHE_HOME", cache.path().c_str(), 1);
  const std::string key = peak_key(at::kFloat, at::kCPU), other = peak_key(at::kBFloat16, at::kCPU);
  EXPECT_NE(key, other);
  EXPECT_EQ(known_peak(key), std::nullopt);
  remember_peak(key, 1e12);
  remember_peak(other, 2e12);
  EXPECT_EQ(known_peak(key), 1e12);
  EXPECT_EQ(known_peak(other), 2e12);
  const std::filesystem::path file = cache.path() / "trainer" / "matmul_peak.json";
  for (const char* odd : {"", "[1]", "{\"a\":1}", "{"}) {
    publish_file(file, odd);
    EXPECT_EQ(known_peak(key), std::nullopt) << odd;
  }
  remember_peak(key, 3e12);
  EXPECT_EQ(known_peak(key), 3e12) << "a broken file is replaced";
  unsetenv("XDG_CACHE_HOME");
}

TEST(SampleLengths, LookAtNoMoreThanAsked) {
  const config::Plan plan = plan_of_llama();
  const prepare::Inputs inputs = prepare::load_inputs(plan);
  const auto count = [&](int64_t most) {
    int64_t sum = 0;
    for (const LengthReport::Bar& bar : sample_lengths(*inputs.datasets.train, most).source.histogram)
      sum += bar.samples;
    return sum;
  };
  const int64_t all = inputs.datasets.train->size();
  EXPECT_EQ(count(all), all);
  EXPECT_EQ(count(all - 1), (all + 1) / 2);
  EXPECT_LE(count(7), 7);
  EXPECT_EQ(count(1), 1);
}

}  // namespace
}  // namespace trainer::train
