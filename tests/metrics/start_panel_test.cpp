#include "engine/metrics/start_panel.h"

#include <gtest/gtest.h>

#include "engine/base/terminal_text.h"

namespace trainer::metrics {
namespace {

using Lines = std::vector<std::string>;

TEST(StartPanel, ShowsWhatARunIsAboutToDo) {
  config::Config config;
  config.distributed_type = config::DistributedType::kFsdp;
  config.mixed_precision = config::MixedPrecision::kBf16;
  config.training.per_device_train_batch_size = 4;
  config.training.gradient_accumulation_steps = 2;
  StartFacts facts{.model_class = "T5ForConditionalGeneration",
                   .parameters = 222'903'552,
                   .trained = 884'736,
                   .units = 25,
                   .ranks = 2,
                   .data_ranks = 2,
                   .device = "the CPU",
                   .rank_bytes = int64_t{426} << 20,
                   .samples = 4361,
                   .validation = 485,
                   .updates = 819,
                   .global_batch = 16};
  for (const std::string& line : start_panel(config, facts)) EXPECT_LE(display_width(line), 80U) << line;
  EXPECT_EQ(start_panel(config, facts),
            (Lines{"model    T5ForConditionalGeneration: 223M parameters, 885k trained (0.40 %)",
                   "ranks    2 on the CPU, FSDP FULL_SHARD with 25 units, computing in bf16",
                   "memory   weights and gradients: 426 MiB a rank; plus optimizer and activations",
                   "updates  819 of 16 samples = 2 ranks x 2 accumulated x 4",
                   "data     4361 samples to train on, 485 for validation"}));
  facts.planned_bytes = int64_t{1200} << 20;
  facts.mesh = "2 data x 2 tensor x 2 context x 2 pipeline";
  facts.ranks = 16;
  const Lines lines = start_panel(config, facts);
  for (const std::string& line : lines) EXPECT_LE(display_width(line), 80U) << line;
  EXPECT_EQ(lines[2], "mesh     16 ranks = 2 data x 2 tensor x 2 context x 2 pipeline");
  EXPECT_EQ(lines[3], "memory   1.2 GiB a rank at most for tensors; weights and gradients: 426 MiB");
}

TEST(StartPanel, ShowsOneProcessAndAResumedRun) {
  StartFacts facts{.model_class = "Mlp", .parameters = 100, .trained = 100, .device = "the CPU"};
  facts.step = 5;
  facts.updates = 10;
  facts.global_batch = 8;
  const Lines lines = start_panel({}, facts);
  EXPECT_EQ(lines[0], "model    Mlp: 100 parameters, all trained");
  EXPECT_EQ(lines[1], "ranks    1 on the CPU, computing in fp32");
  EXPECT_EQ(lines[3], "updates  10 of 8 samples, from step 5 on");
  facts.global_batch = 7;
  EXPECT_EQ(start_panel({}, facts)[3], "updates  10 of 7 samples, from step 5 on") << "by global_batch_size";
}

}  // namespace
}  // namespace trainer::metrics
