// What options mean for each other.
#include "tests/config/given.h"

namespace trainer::config {
namespace {

using Rules = Given;

const std::string kMultiCpu =
    "distributed_type: MULTI_CPU\nnum_processes: 2\nmodel: {path: m}\ndata: {train: {path: a}, validation: {fraction: "
    "0.1}}\n";

TEST_F(Rules, Ranks) {
  EXPECT_EQ(problems(kLeast + "num_processes: 2\n"),
            "f.yaml:5:16: num_processes is 2, but distributed_type NO runs one process: use MULTI_CPU or FSDP");
  EXPECT_EQ(problems(kLeast + "num_processes: 1\n"), "");
  EXPECT_EQ(problems(kMultiCpu + "num_machines: 2\n"),
            "f.yaml:5:15: num_machines is 2: more than one machine is not supported by this version");
  EXPECT_EQ(problems(kMultiCpu + "compute_environment: AMAZON_SAGEMAKER\n"),
            "f.yaml:5:22: compute_environment AMAZON_SAGEMAKER is not supported: run `trainer launch` inside the "
            "job, with a file for LOCAL_MACHINE");
  EXPECT_EQ(problems(kMultiCpu, {{"num_processes", "0", "--num_processes"}}),
            "--num_processes: num_processes must be at least 1; is 0");
}

TEST_F(Rules, WhatAsksForGpusNeverRunsOnACpuUnasked) {
  const std::string rest = "use_cpu: false\nmodel: {path: m}\ndata: {train: {path: a}}\n";
  EXPECT_EQ(problems("distributed_type: FSDP\nnum_processes: 2\n" + rest),
            "f.yaml:1:19: distributed_type FSDP with use_cpu false trains on GPUs, and this build has no GPU support: "
            "--cpu (or use_cpu: true) rehearses it on the CPU");
  EXPECT_EQ(problems("distributed_type: FSDP\nnum_processes: 2\n" + rest, {{"use_cpu", "true", "--cpu"}}), "");
  EXPECT_EQ(problems("distributed_type: NO\n" + rest), "");
  EXPECT_EQ(problems(kMultiCpu), "");
}

TEST_F(Rules, Model) {
  const std::string base = "distributed_type: NO\nuse_cpu: true\ndata: {train: {path: a}}\n";
  EXPECT_EQ(problems(base),
            "f.yaml: model.path (a Hugging Face folder) or model.config (built from scratch) is required");
  EXPECT_EQ(problems(base + "model: {config: {model_type: t5}}\n"),
            "f.yaml: tokenizer.path is required with model.config; `trainer tokenize train` makes one from text");
  const Plan plan = resolve(base + "model: {config: {model_type: t5, d_model: 8}}\ntokenizer: {path: t}\n",
                            {{"model.config.d_model", "16", "--set"}});
  EXPECT_EQ(plan.config.model.config, R"({"model_type":"t5","d_model":16})");
}

TEST_F(Rules, Batch) {
  EXPECT_EQ(
      problems(kMultiCpu +
               "training: {global_batch_size: 10, gradient_accumulation_steps: 2, per_device_train_batch_size: 4}\n"),
      "f.yaml:5:31: training.global_batch_size is 10, but per_device_train_batch_size 4 x gradient_accumulation_steps "
      "2 "
      "x 2 ranks is 16: leave out gradient_accumulation_steps");
  EXPECT_EQ(
      problems(kMultiCpu +
               "training: {global_batch_size: 16, gradient_accumulation_steps: 2, per_device_train_batch_size: 4}\n"),
      "");
  EXPECT_EQ(problems(kMultiCpu + "training: {global_batch_size: 10}\n"), "");
}

TEST_F(Rules, Lora) {
  EXPECT_EQ(problems(kMultiCpu + "lora: {task_type: CAUSAL_LM, inference_mode: true, peft_type: IA3}\n"),
            "f.yaml:5:19: lora.task_type CAUSAL_LM doesn't fit data.task seq2seq_lm\n"
            "f.yaml:5:46: lora.inference_mode is true, which leaves nothing to train: set it to false\n"
            "f.yaml:5:63: lora.peft_type IA3 is not supported by this version; LORA is");
  EXPECT_EQ(problems(kMultiCpu +
                     "lora: {task_type: seq_2_seq_lm, peft_type: lora, init_lora_weights: True, target_modules: q}\n"),
            "");
  EXPECT_EQ(problems(kMultiCpu + "lora: {use_dora: true, rank_pattern: {q: 4}, alpha_pattern: {}, revision: x}\n"),
            "f.yaml:5:8: lora.use_dora: true is not supported: plain LoRA and rsLoRA are\n"
            "f.yaml:5:24: lora.rank_pattern: {q: 4} is not supported: all adapters have the same r");
  EXPECT_EQ(resolve(kMultiCpu + "lora: {target_modules: q}\n").config.lora->target_modules.pattern, "q");
}

TEST_F(Rules, MegatronData) {
  auto given = [](const std::string& options) {
    return "distributed_type: NO\nuse_cpu: true\nmodel: {path: m}\ndata: {task: causal_lm, megatron: {" + options +
           "}, train: {path: a, format: megatron}}\n";
  };
  EXPECT_EQ(problems(given("reset_position_ids: true")),
            "f.yaml:4:56: data.megatron.reset_position_ids needs data.megatron.reset_attention_mask: true: tokens of "
            "two documents with equal positions would see each other");
  EXPECT_EQ(problems(given("reset_position_ids: true, reset_attention_mask: true")), "");
}

TEST_F(Rules, Evaluation) {
  EXPECT_EQ(problems(kLeast + "evaluation: {generate: true}\n"),
            "f.yaml:5:24: evaluation.generate needs validation samples: give data.validation.fraction or "
            "data.validation.path");
  EXPECT_EQ(problems(kMultiCpu + "evaluation: {metrics: [loss, accuracy]}\n"),
            "f.yaml:5:23: evaluation.metrics: accuracy compares generated text with labels and needs "
            "evaluation.generate: true");
  EXPECT_EQ(problems(kMultiCpu + "evaluation: {metrics: [los]}\n"),
            "f.yaml:5:23: evaluation.metrics must be one of loss, accuracy; is 'los' (did you mean 'loss'?)");
}

TEST_F(Rules, WhatThisVersionLacks) {
  EXPECT_EQ(problems("distributed_type: NO\nuse_cpu: true\nmodel: {path: m}\n"
                     "data: {task: causal_lm, train: {path: a, format: parquet}}\n"
                     "logging: {report_to: [tensorboard, wandb]}\ntraining: {optim: adafactor, lr_scheduler_type: "
                     "polynomial}\n"),
            "f.yaml:4:14: data.task causal_lm is not supported by this version; seq2seq_lm is\n"
            "f.yaml:4:50: data.train.format parquet is not supported by this version\n"
            "f.yaml:5:22: logging.report_to must be one of none, tensorboard; is 'wandb'\n"
            "f.yaml:6:19: training.optim adafactor is not supported by this version\n"
            "f.yaml:6:49: training.lr_scheduler_type polynomial is not supported by this version");
}

TEST_F(Rules, WhatHasNoEffectIsSaid) {
  EXPECT_EQ(
      warnings(kLeast +
               "training: {sgd_momentum: 0.5, max_steps: 3, num_train_epochs: 2, ddp_bucket_cap_mb: 1}\n"
               "evaluation: {max_new_tokens: 4, eval_steps: 3}\nfsdp_config: {fsdp_sharding_strategy: NO_SHARD}\n"),
      "f.yaml:7:14: fsdp_config has no effect unless distributed_type is FSDP\n"
      "f.yaml:5:63: training.num_train_epochs has no effect unless max_steps is not given\n"
      "f.yaml:5:26: training.sgd_momentum has no effect unless optim is sgd\n"
      "f.yaml:5:85: training.ddp_bucket_cap_mb has no effect unless distributed_type is MULTI_CPU\n"
      "f.yaml:6:45: evaluation.eval_steps has no effect unless there are validation samples\n"
      "f.yaml:6:30: evaluation.max_new_tokens has no effect unless evaluation.generate is true\n");
}

TEST_F(Rules, ReportToNoneIsNothing) {
  EXPECT_TRUE(resolve(kLeast + "logging: {report_to: none}\n").config.logging.report_to.empty());
  EXPECT_EQ(resolve(kLeast + "logging: {report_to: [TensorBoard]}\n").config.logging.report_to,
            std::vector<std::string>{"tensorboard"});
}

}  // namespace
}  // namespace trainer::config
