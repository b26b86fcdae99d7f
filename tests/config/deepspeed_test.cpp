// DeepSpeed's configuration: Accelerate's keys for it, ds_config.json, and training.deepspeed.
#include "tests/config/given.h"
#include "tests/support/source_dir.h"

namespace trainer::config {
namespace {

namespace fs = std::filesystem;

const std::string kRest = "num_processes: 4\nuse_cpu: true\nmodel: {path: m}\ndata: {train: {path: a}}\n";
const std::string kDeepspeedFolder = source_dir() + "/tests/config/deepspeed/";

class Deepspeed : public Given {
 protected:
  /// A configuration with Accelerate's keys.
  static std::string keys(const std::string& options, const std::string& more = "") {
    return "distributed_type: DEEPSPEED\n" + kRest + "deepspeed_config: {" + options + "}\n" + more;
  }
  /// One with a file of this text.
  std::string file(const std::string& json, const std::string& more = "", const std::string& beside = "") {
    write("ds.json", json);
    return keys("deepspeed_config_file: ds.json" + beside, more);
  }
  /// One with a file of tests/config/deepspeed/.
  static std::string shipped(const std::string& name, const std::string& more = "") {
    return keys("deepspeed_config_file: " + kDeepspeedFolder + name, more);
  }

  /// The translation of each key: "zero_stage 3 -> distributed_type: FSDP".
  std::string translated(const std::string& text, const std::vector<Override>& overrides = {}) {
    return lines(resolve(text, overrides).translated);
  }
  std::string without_effect(const std::string& text) { return lines(resolve(text).without_effect); }

 private:
  std::string lines(const std::vector<Note>& notes) {
    std::string all;
    for (const Note& note : notes) {
      all += fmt::format("{} {} -> {}\n", note.key, without_folder(note.value), without_folder(note.text));
    }
    return all;
  }
};

TEST_F(Deepspeed, Stage0IsDataParallel) {
  const Plan plan = resolve(keys("zero_stage: 0, gradient_accumulation_steps: 4, gradient_clipping: 0.5"));
  EXPECT_EQ(plan.config.distributed_type, DistributedType::kMultiCpu);
  EXPECT_FALSE(plan.config.deepspeed_config);
  EXPECT_EQ(plan.config.training.gradient_accumulation_steps, 4);
  EXPECT_EQ(plan.config.training.max_grad_norm, 0.5);
  EXPECT_EQ(without_folder(plan.origins.at("training.max_grad_norm")), "f.yaml:6:86");
}

TEST_F(Deepspeed, Stage3IsFullySharded) {
  EXPECT_EQ(translated(keys("zero_stage: 3, offload_param_device: cpu, gradient_accumulation_steps: auto")),
            "distributed_type DEEPSPEED -> distributed_type: FSDP, because deepspeed_config.zero_stage is 3\n"
            "deepspeed_config.zero_stage 3 -> fsdp_config.fsdp_sharding_strategy: FULL_SHARD\n"
            "deepspeed_config.offload_param_device cpu -> fsdp_config.fsdp_offload_params: true\n");
  const Plan plan = resolve(keys("zero_stage: '3'"));
  EXPECT_EQ(plan.config.distributed_type, DistributedType::kFsdp);
  EXPECT_EQ(plan.config.fsdp_config.auto_wrap_policy, WrapPolicy::kTransformerBased);
}

TEST_F(Deepspeed, StagesOneAndTwoKeepParametersBetweenForwardAndBackward) {
  for (const std::string given : {"zero_stage: 1", "zero_stage: 2", ""}) {  // 2 is Accelerate's default
    const Plan plan = resolve(keys(given));
    EXPECT_EQ(plan.config.distributed_type, DistributedType::kFsdp) << given;
    EXPECT_EQ(plan.config.fsdp_config.sharding_strategy, ShardingStrategy::kShardGradOp) << given;
  }
  EXPECT_EQ(problems(keys("zero_stage: 4")), "f.yaml:6:32: deepspeed_config.zero_stage must be at most 3; is 4");
  EXPECT_EQ(problems(keys("zero_stage: three")),
            "f.yaml:6:32: deepspeed_config.zero_stage must be an integer; is 'three'");
}

TEST_F(Deepspeed, OffloadsOnlyShardsAndOnlyToCpu) {
  EXPECT_EQ(problems(keys("zero_stage: 3, offload_optimizer_device: nvme")),
            "f.yaml:6:61: deepspeed_config.offload_optimizer_device: nvme is not supported: nothing is offloaded to "
            "disk; use cpu");
  EXPECT_EQ(warnings(keys("zero_stage: 0, offload_optimizer_device: cpu")),
            "f.yaml:6:61: deepspeed_config.offload_optimizer_device has no effect unless zero_stage is 1, 2 or 3\n");
  EXPECT_EQ(without_effect(file(R"({"zero_optimization": {"cpu_offload": true}})")),
            "ds_config.zero_optimization.cpu_offload true -> nothing is sharded, so there is nothing to offload\n");
  EXPECT_EQ(without_effect(file(R"({"zero_optimization": {"stage": 3, "cpu_offload": true}})")),
            "fsdp_config.fsdp_offload_params true -> this run trains on the CPU, where they are in host memory already\n");
  EXPECT_EQ(warnings(keys("zero_stage: 2, offload_param_device: cpu")),
            "f.yaml:6:57: deepspeed_config.offload_param_device has no effect unless zero_stage is 3\n");
  EXPECT_EQ(without_effect(file(R"({"zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}}})")),
            "ds_config.zero_optimization.offload_param.device cpu -> DeepSpeed offloads parameters only in stage 3\n");
}

TEST_F(Deepspeed, OffloadsWithPinnedMemoryUnlessDenied) {
  const auto fsdp = [&](const std::string& zero) {
    return resolve(file("{\"zero_optimization\": {" + zero + "}}")).config.fsdp_config;
  };
  for (const std::string stage : {"1", "2", "3"}) {
    const FsdpConfig pinned = fsdp("\"stage\": " + stage + R"(, "offload_optimizer": {"device": "cpu"})");
    EXPECT_TRUE(pinned.offload_params && pinned.offload_pin_memory) << stage;
  }
  const FsdpConfig unpinned =
      fsdp(R"("stage": 3, "offload_param": {"device": "cpu", "pin_memory": false}, "offload_optimizer": {"device": "cpu"})");
  EXPECT_TRUE(unpinned.offload_params && !unpinned.offload_pin_memory);
  EXPECT_TRUE(fsdp(R"("stage": 3, "offload_param": {"device": "none", "pin_memory": false})").offload_pin_memory);
}

TEST_F(Deepspeed, OffloadsTheInputsOfRecomputedBlocks) {
  const std::string json = R"({"activation_checkpointing": {"cpu_checkpointing": true}})";
  EXPECT_TRUE(resolve(file(json)).config.training.activation_offloading);
  EXPECT_NE(warnings(file(json)).find("training.activation_offloading has no effect unless gradient_checkpointing"),
            std::string::npos)
      << warnings(file(json));
}

TEST_F(Deepspeed, RefusesOffloadingFromGpusWithoutShards) {
  const std::string rest = "num_processes: 4\nmodel: {path: m}\ndata: {train: {path: a}}\n";
  const std::pair<std::string, std::string> refused[] = {
      {"distributed_type: FSDP\nfsdp_config: {fsdp_offload_params: true, fsdp_sharding_strategy: NO_SHARD}\n",
       "f.yaml:2:36: fsdp_config.fsdp_offload_params is true, but fsdp_sharding_strategy is NO_SHARD"},
      {"distributed_type: MEGATRON_LM\nmegatron_lm_config: {megatron_lm_optimizer_cpu_offload: true}\n",
       "f.yaml:2:22: megatron_lm_config.megatron_lm_optimizer_cpu_offload: true is not supported: optimizer state "
       "stays on the GPU"}};
  for (const auto& [text, problem] : refused) {
    EXPECT_NE(problems(text + rest).find(problem), std::string::npos) << problems(text + rest);
    EXPECT_EQ(problems(text + rest, {{"use_cpu", "true", "--cpu"}}), "") << "on the CPU everything is in host memory";
  }
}

TEST_F(Deepspeed, IsRefusedWithoutGpuUnlessCpuIsRequested) {
  const std::string rest =
      "distributed_type: DEEPSPEED\nnum_processes: 4\nmodel: {path: m}\ndata: {train: {path: a}}\n";
  const std::string text = rest + "deepspeed_config: {zero_stage: 3}\n";
  EXPECT_EQ(problems(text),
            "f.yaml:1:19: distributed_type DEEPSPEED with use_cpu false trains on GPUs, and this build has no GPU "
            "support: --cpu (or use_cpu: true) trains on the CPU instead");
  EXPECT_EQ(resolve(text, {{"use_cpu", "true", "--cpu"}}).config.distributed_type, DistributedType::kFsdp);
}

TEST_F(Deepspeed, KeysHaveNoEffectWithOtherTypes) {
  EXPECT_EQ(warnings("distributed_type: FSDP\n" + kRest + "deepspeed_config: {zero_stage: 2}\n"),
            "f.yaml:6:19: deepspeed_config has no effect unless distributed_type is DEEPSPEED\n");
  EXPECT_EQ(warnings(keys("zero_stage: 3", "fsdp_config: {fsdp_sharding_strategy: NO_SHARD}\n")),
            "f.yaml:7:39: fsdp_config has no effect unless distributed_type is FSDP\n");
}

TEST_F(Deepspeed, TranslatesCompleteFile) {
  EXPECT_EQ(
      translated(shipped("stage0.json")),
      "distributed_type DEEPSPEED -> distributed_type: MULTI_GPU, because ds_config.zero_optimization.stage is 0\n"
      "ds_config.bf16.enabled true -> mixed_precision: bf16\n"
      "ds_config.train_micro_batch_size_per_gpu 4 -> training.per_device_train_batch_size: 4\n"
      "ds_config.train_batch_size 32 -> training.gradient_accumulation_steps: 2\n"
      "ds_config.gradient_clipping 0.5 -> training.max_grad_norm: 0.5\n"
      "ds_config.optimizer.type AdamW -> training.optim: adamw_torch_fused\n"
      "ds_config.optimizer.params.betas [0.8, 0.99] -> training.adam_beta1: 0.8\n"
      "ds_config.optimizer.params.betas [0.8, 0.99] -> training.adam_beta2: 0.99\n"
      "ds_config.optimizer.params.eps 1.0e-07 -> training.adam_epsilon: 1.0e-07\n"
      "ds_config.optimizer.params.weight_decay 3.0e-07 -> training.weight_decay: 3.0e-07\n"
      "ds_config.optimizer.params.lr 3.0e-05 -> training.learning_rate: 3.0e-05\n"
      "ds_config.scheduler.type WarmupDecayLR -> training.lr_scheduler_type: warmup_decay_lr\n"
      "ds_config.scheduler.params.warmup_num_steps 500 -> training.warmup_steps: 500\n"
      "ds_config.scheduler.params.warmup_max_lr 3.0e-05 -> training.learning_rate: 3.0e-05\n"
      "ds_config.scheduler.params.warmup_min_lr 1.0e-06 -> training.lr_scheduler_kwargs.warmup_min_lr: 1.0e-06\n"
      "ds_config.scheduler.params.total_num_steps 4000 -> training.lr_scheduler_kwargs.total_num_steps: 4000\n"
      "distributed_type MULTI_GPU -> distributed_type: MULTI_CPU, because use_cpu is true\n");
  EXPECT_EQ(without_effect(shipped("stage0.json")),
            "ds_config.steps_per_print 2000 -> logging.logging_steps sets it\n");
}

TEST_F(Deepspeed, TakesAutoValuesFromTrainingSection) {
  const std::string text =
      shipped("stage3.json",
              "mixed_precision: bf16\ntraining: {per_device_train_batch_size: 2, gradient_accumulation_steps: 3, "
              "learning_rate: 1e-4, warmup_steps: 7, weight_decay: 0.1, adam_beta2: 0.98}\n");
  EXPECT_EQ(translated(text),
            "distributed_type DEEPSPEED -> distributed_type: FSDP, because ds_config.zero_optimization.stage is 3\n"
            "ds_config.zero_optimization.stage 3 -> fsdp_config.fsdp_sharding_strategy: FULL_SHARD\n"
            "ds_config.zero_optimization.offload_optimizer.device cpu -> fsdp_config.fsdp_offload_params: true\n"
            "ds_config.zero_optimization.offload_param.device cpu -> fsdp_config.fsdp_offload_params: true\n"
            "ds_config.optimizer.type AdamW -> training.optim: adamw_torch_fused\n"
            "ds_config.scheduler.type WarmupLR -> training.lr_scheduler_type: warmup_lr\n");
  const TrainingConfig training = resolve(text).config.training;
  EXPECT_EQ(training.learning_rate, 1e-4);
  EXPECT_EQ(training.warmup_steps, 7);
  EXPECT_EQ(training.weight_decay, 0.1);
  EXPECT_EQ(training.adam_beta2, 0.98);
  EXPECT_EQ(warnings(text),
            kDeepspeedFolder +
                "stage3.json: these keys have no effect here: stage3_gather_16bit_weights_on_model_save, "
                "sub_group_size, stage3_max_live_parameters, stage3_max_reuse_distance, steps_per_print, "
                "fsdp_offload_params (see `trainer check`)\n");
}

TEST_F(Deepspeed, ReadsMonitorsAndQuotedNumbers) {
  const Plan plan = resolve(shipped("monitors.json"));
  EXPECT_EQ(plan.config.training.per_device_train_batch_size, 8);
  EXPECT_EQ(plan.config.training.optim, OptimizerName::kSgd);
  EXPECT_EQ(plan.config.training.sgd_momentum, 0.9);
  const std::string recompute =
      " -> training.gradient_checkpointing recomputes blocks; transformers' models never read this\n";
  EXPECT_EQ(without_effect(shipped("monitors.json")),
            "ds_config.activation_checkpointing.partition_activations true" + recompute +
                "ds_config.activation_checkpointing.number_checkpoints 4" + recompute +
                "ds_config.checkpoint.load_universal true -> any number of ranks can load every checkpoint\n"
                "ds_config.aio {block_size: 1048576, queue_depth: 8, thread_count: 1} -> nothing is offloaded to disk\n"
                "ds_config.tensorboard {enabled: true, output_path: logs/, job_name: run} -> logging.report_to enables "
                "TensorBoard\n");
}

TEST_F(Deepspeed, DerivesThirdBatchSizeFromOtherTwo) {
  auto sizes = [&](const std::string& json, const std::string& more = "") {
    const TrainingConfig t = resolve(file(json, more)).config.training;
    return std::pair(t.per_device_train_batch_size, t.gradient_accumulation_steps);
  };
  using Sizes = std::pair<int64_t, int64_t>;
  EXPECT_EQ(sizes(R"({"train_batch_size": 48, "gradient_accumulation_steps": 3})"), Sizes(4, 3));
  EXPECT_EQ(sizes(R"({"train_batch_size": 48, "train_micro_batch_size_per_gpu": 3})"), Sizes(3, 4));
  EXPECT_EQ(sizes(R"({"train_batch_size": "48"})"), Sizes(12, 1));
  EXPECT_EQ(sizes(R"({"train_micro_batch_size_per_gpu": 3, "gradient_accumulation_steps": 2})"), Sizes(3, 2));
  EXPECT_EQ(sizes(R"({"train_batch_size": 48})", "training: {gradient_accumulation_steps: 6}\n"), Sizes(2, 6));
  EXPECT_EQ(sizes(R"({"train_batch_size": 24, "train_micro_batch_size_per_gpu": 3, "gradient_accumulation_steps": 2})"),
            Sizes(3, 2));
  const std::string end = ": set two of the three sizes, or sizes that match";
  EXPECT_EQ(problems(file(
                R"({"train_batch_size": 25, "train_micro_batch_size_per_gpu": 3, "gradient_accumulation_steps": 2})")),
            "ds.json:1:22: ds_config.train_batch_size is 25, but train_micro_batch_size_per_gpu 3 x "
            "gradient_accumulation_steps 2 x 4 ranks is 24" +
                end);
  EXPECT_EQ(problems(file(R"({"train_batch_size": 10})")),
            "ds.json:1:22: ds_config.train_batch_size is 10, but 4 ranks is 4, which doesn't divide it" + end);
  EXPECT_EQ(problems(file(R"({"train_batch_size": 10, "gradient_accumulation_steps": 2})")),
            "ds.json:1:22: ds_config.train_batch_size is 10, but gradient_accumulation_steps 2 x 4 ranks is 8, which "
            "doesn't divide it" +
                end);
  EXPECT_EQ(problems(file(R"({"train_batch_size": 0, "gradient_accumulation_steps": 1e12})")),
            "ds.json:1:22: ds_config.train_batch_size must be at least 1; is 0\n"
            "ds.json:1:56: ds_config.gradient_accumulation_steps must be at most 1000000000; is 1000000000000");
}

TEST_F(Deepspeed, ReportsEveryDifferenceFromTrainingSection) {
  write("ds.json", R"({"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2, "gradient_clipping": 1.0,
 "bf16": {"enabled": true}, "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "weight_decay": 0.1}},
 "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 10, "warmup_max_lr": 1e-3}}})");
  const std::string training =
      "training: {per_device_train_batch_size: 8, gradient_accumulation_steps: 2, max_grad_norm: 0.5,\n"
      "  learning_rate: 1e-4, weight_decay: 0.0, warmup_steps: 5, lr_scheduler_type: linear, optim: sgd}\n";
  const std::string end = ": give one of them, or both the same value";
  EXPECT_EQ(
      problems(keys("deepspeed_config_file: ds.json", "mixed_precision: no\n" + training)),
      "ds.json:1:36: ds_config.train_micro_batch_size_per_gpu is 4, but training.per_device_train_batch_size is 8 "
      "(f.yaml:8:41)" +
          end + "\nds.json:1:94: ds_config.gradient_clipping is 1, but training.max_grad_norm is 0.5 (f.yaml:8:91)" +
          end + "\nds.json:2:22: ds_config.bf16.enabled is true, but mixed_precision is no (f.yaml:7:18)" + end +
          "\nds.json:2:51: ds_config.optimizer.type is AdamW, but training.optim is sgd (f.yaml:9:94)" + end +
          "\nds.json:2:77: ds_config.optimizer.params.lr is 0.001, but training.learning_rate is 0.0001 "
          "(f.yaml:9:18)" +
          end +
          "\nds.json:2:99: ds_config.optimizer.params.weight_decay is 0.1, but training.weight_decay is 0 "
          "(f.yaml:9:38)" +
          end +
          "\nds.json:3:24: ds_config.scheduler.type is WarmupLR, but training.lr_scheduler_type is linear "
          "(f.yaml:9:79)" +
          end +
          "\nds.json:3:67: ds_config.scheduler.params.warmup_num_steps is 10, but training.warmup_steps is 5 "
          "(f.yaml:9:57)" +
          end);
}

TEST_F(Deepspeed, FlagOverridesFile) {
  const Plan plan = resolve(file(R"({"train_micro_batch_size_per_gpu": 4, "gradient_clipping": 2})"),
                            {{"training.max_grad_norm", "0.25", "--gradient_clipping"}});
  EXPECT_EQ(plan.config.training.max_grad_norm, 0.25);
  EXPECT_EQ(plan.origins.at("training.max_grad_norm"), "--gradient_clipping");
}

TEST_F(Deepspeed, UsesItsDefaultsForMissingKeys) {
  const std::string decay = R"({"optimizer": {"type": "AdamW", "params": {"lr": 3e-5}},
 "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": "auto"}}})";
  EXPECT_EQ(problems(file(decay)),
            "ds.json:2:24: ds_config.scheduler.params.warmup_max_lr (left out, so DeepSpeed's default) is 0.001, but "
            "training.learning_rate is 3.0e-05 (ds.json:1:50): give one of them, or both the same value");
  const std::string least = R"({"optimizer": {"type": "Adam"}, "scheduler": {"type": "WarmupLR"}})";
  const TrainingConfig training = resolve(file(least)).config.training;
  EXPECT_EQ(training.learning_rate, 1e-3);
  EXPECT_EQ(training.warmup_steps, 1000);
  EXPECT_EQ(problems(file(least, "training: {weight_decay: 0.01}\n")),
            "ds.json:1:24: ds_config.optimizer.params.weight_decay (left out, so DeepSpeed's default) is 0, but "
            "training.weight_decay is 0.01 (f.yaml:7:26): give one of them, or both the same value");
}

TEST_F(Deepspeed, TranslatesAdamAndRefusesOtherOptimizers) {
  auto refused = [&](const std::string& optimizer) { return problems(file(R"({"optimizer": {)" + optimizer + "}}")); };
  EXPECT_EQ(refused(R"("type": "Lamb")"),
            "ds.json:1:24: ds_config.optimizer.type: Lamb is not supported: use AdamW, Adam or SGD; training.optim "
            "offers more if the ds_config.json has no optimizer");
  EXPECT_EQ(refused(R"("type": "AdmW")"),
            "ds.json:1:24: ds_config.optimizer.type: AdmW is not supported: use AdamW, Adam or SGD (did you mean "
            "'AdamW'?)");
  EXPECT_EQ(refused(R"("params": {"lr": "auto"})"),
            "ds.json:1:15: ds_config.optimizer.type is required in optimizer: AdamW, Adam or SGD");
  EXPECT_EQ(refused(R"("type": "Adam", "params": {"adam_w_mode": false})"), "");  // without decay it is the same
  EXPECT_EQ(refused(R"("type": "Adam", "params": {"adam_w_mode": false, "weight_decay": 0.1})"),
            "ds.json:1:58: ds_config.optimizer.params.adam_w_mode: false is not supported: with weight decay 0.1 it "
            "adds the decay to the gradient; AdamW needs true, or a decay of 0");
  EXPECT_EQ(refused(R"("type": "AdamW", "params": {"max_grad_norm": 0.5, "bias_correction": false, "betas": [0.9]})"),
            "ds.json:1:61: ds_config.optimizer.params.max_grad_norm: 0.5 is not supported: use gradient_clipping, "
            "outside optimizer, which is 1\n"
            "ds.json:1:66: ds_config.optimizer.params.bias_correction: false is not supported: AdamW and SGD are "
            "supported in their plain form\n"
            "ds.json:1:101: ds_config.optimizer.params.betas must be two numbers or auto; is [0.9]");
  EXPECT_EQ(resolve(file(R"({"optimizer": {"type": "AdamW", "params": {"torch_adam": true, "lr": 1}}})"))
                .config.training.weight_decay,
            0.01);
}

TEST_F(Deepspeed, TranslatesWarmupSchedulesAndRefusesOthers) {
  auto refused = [&](const std::string& scheduler) { return problems(file(R"({"scheduler": {)" + scheduler + "}}")); };
  EXPECT_EQ(refused(R"("type": "OneCycle", "params": {"cycle_min_lr": 1e-5})"),
            "ds.json:1:24: ds_config.scheduler.type: OneCycle is not supported: use WarmupLR, WarmupDecayLR, "
            "WarmupCosineLR");
  EXPECT_EQ(refused(R"("type": "WarmupLR", "params": {"total_num_steps": 10, "warmup_type": "exp"})"),
            "ds.json:1:66: ds_config.scheduler.params.total_num_steps: 10 is not supported: WarmupLR has no such key\n"
            "ds.json:1:85: ds_config.scheduler.params.warmup_type must be one of log, linear; is 'exp'");
  EXPECT_EQ(refused(R"("type": "WarmupCosineLR")"),
            "ds.json:1:24: WarmupCosineLR needs ds_config.scheduler.params.total_num_steps: a number of updates, or "
            "auto for the length of the run");
  const TrainingConfig training = resolve(file(R"({"scheduler": {"type": "WarmupCosineLR", "params":
      {"total_num_steps": 90, "warmup_num_steps": 9, "warmup_min_ratio": 0.1, "cos_min_ratio": 0.2,
       "warmup_type": "linear"}}})"))
                                      .config.training;
  EXPECT_EQ(training.lr_scheduler_type, Schedule::kWarmupCosineLr);
  EXPECT_EQ(training.warmup_steps, 9);
  EXPECT_EQ(training.lr_scheduler_kwargs.total_num_steps, 90);
  EXPECT_EQ(training.lr_scheduler_kwargs.warmup_min_ratio, 0.1);
  EXPECT_EQ(training.lr_scheduler_kwargs.cos_min_ratio, 0.2);
  EXPECT_EQ(training.lr_scheduler_kwargs.warmup_type, "linear");
}

TEST_F(Deepspeed, TranslatesPrecision) {
  EXPECT_EQ(resolve(file(R"({"fp16": {"enabled": true}})")).config.mixed_precision, MixedPrecision::kFp16);
  EXPECT_EQ(problems(file(R"({"fp16": {"enabled": true}, "bf16": {"enabled": true}})")),
            "ds.json:1:49: ds_config.bf16.enabled and ds_config.fp16.enabled (ds.json:1:22) exclude each other: set "
            "only one of them");
  EXPECT_EQ(problems(file(R"({"bf16": {"enabled": false}})", "mixed_precision: bf16\n")),
            "ds.json:1:22: ds_config.bf16.enabled is false, but mixed_precision is bf16 (f.yaml:7:18): give one of "
            "them, or both the same value");
  EXPECT_EQ(resolve(file(R"({"fp16": {"enabled": false}})", "mixed_precision: bf16\n")).config.mixed_precision,
            MixedPrecision::kBf16);
}

TEST_F(Deepspeed, LossScalingHasDeepspeedsDefaults) {
  const LossScalingConfig of_torch,
      defaults = resolve(file(R"({"fp16": {"enabled": true}})")).config.training.loss_scaling;
  EXPECT_EQ(of_torch.loss_scale_window, 2000);
  EXPECT_EQ(of_torch.hysteresis, 1);
  EXPECT_EQ(defaults.initial_scale_power, 16);
  EXPECT_EQ(defaults.loss_scale_window, 1000);
  EXPECT_EQ(defaults.hysteresis, 2);
  EXPECT_EQ(defaults.min_loss_scale, 1);
  const LossScalingConfig given =
      resolve(file(R"({"fp16": {"enabled": true, "loss_scale": 0, "initial_scale_power": 12, "loss_scale_window": 500,
 "hysteresis": "auto", "consecutive_hysteresis": true, "min_loss_scale": 0.5}})"))
          .config.training.loss_scaling;
  EXPECT_EQ(given.initial_scale_power, 12);
  EXPECT_EQ(given.loss_scale_window, 500);
  EXPECT_EQ(given.hysteresis, 1);
  EXPECT_TRUE(given.consecutive_hysteresis);
  EXPECT_EQ(given.min_loss_scale, 0.5);
  EXPECT_EQ(given.loss_scale, 0);
  const auto scale = [&](const char* text) {
    return resolve(file(fmt::format(R"({{"fp16": {{"enabled": true, "loss_scale": {}}}}})", text)))
        .config.training.loss_scaling.loss_scale;
  };
  EXPECT_EQ(scale("128"), 128);
  EXPECT_EQ(scale(R"("auto")"), 0);
  EXPECT_NE(problems(file(R"({"fp16": {"enabled": true, "loss_scale": -1}})")), "");
  EXPECT_EQ(problems(file(R"({"amp": {"enabled": true, "opt_level": "O1"}})")),
            "ds.json:1:2: ds_config.amp: {enabled: true, opt_level: O1} is not supported: it is NVIDIA's apex; use "
            "fp16.enabled or bf16.enabled");
}

TEST_F(Deepspeed, KeysNextToFileMustAgreeWithIt) {
  const std::string json = R"({"zero_optimization": {"stage": 3}, "gradient_clipping": "auto"})";
  EXPECT_EQ(problems(file(json, "", ", zero_stage: 3, gradient_clipping: 0.5, zero3_init_flag: true")), "");
  EXPECT_EQ(problems(file(json, "", ", zero_stage: 0, offload_param_device: cpu")),
            "f.yaml:6:64: deepspeed_config.zero_stage is 0, but ds_config.zero_optimization.stage is 3 (ds.json:1:33): "
            "Accelerate forbids both; set it only in the ds_config.json\n"
            "f.yaml:6:89: deepspeed_config.offload_param_device is cpu, but "
            "ds_config.zero_optimization.offload_param.device is none (default): Accelerate forbids both; set it only "
            "in the ds_config.json");
}

// Accelerate's guide to DeepSpeed, scenario 3.
TEST_F(Deepspeed, AutoInTheFileIsTheValueOfAcceleratesKey) {
  const std::string open =
      R"({"zero_optimization": {"stage": "auto", "stage3_gather_16bit_weights_on_model_save": "auto",
          "offload_optimizer": {"device": "auto"}, "offload_param": {"device": "auto"}},
          "gradient_clipping": "auto", "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",
          "gradient_accumulation_steps": "auto", "steps_per_print": 2000000})";
  const std::string beside =
      ", zero_stage: 3, offload_param_device: cpu, zero3_save_16bit_model: true, gradient_accumulation_steps: 5, "
      "gradient_clipping: 0.5";
  EXPECT_EQ(problems(file(open, "", beside)), "");
  EXPECT_EQ(warnings(file(open, "", beside)).find("unless"), std::string::npos);
  const Plan plan = resolve(file(open, "", beside));
  EXPECT_EQ(plan.config.fsdp_config.sharding_strategy, ShardingStrategy::kFullShard);
  EXPECT_TRUE(plan.config.fsdp_config.offload_params);
  EXPECT_EQ(plan.config.training.gradient_accumulation_steps, 5);
  EXPECT_EQ(plan.config.training.max_grad_norm, 0.5);
  EXPECT_EQ(without_folder(plan.origins.at("fsdp_config.fsdp_sharding_strategy")), "f.yaml:6:64");
  // Without the keys, Accelerate's defaults.
  const Plan defaults = resolve(file(open));
  EXPECT_EQ(defaults.config.fsdp_config.sharding_strategy, ShardingStrategy::kShardGradOp);
  EXPECT_FALSE(defaults.config.fsdp_config.offload_params);
  EXPECT_EQ(problems(file(open, "", ", zero_stage: 7")),
            "f.yaml:6:64: ds_config.zero_optimization.stage must be at most 3; is 7");
}

TEST_F(Deepspeed, RefusesUnknownKeysAtEveryLevel) {
  EXPECT_EQ(
      problems(file(R"({"gradient_cliping": 1, "zero_optimization": {"stge": 3, "offload_param": {"devise": "cpu"}},
 "optimizer": {"type": "AdamW", "params": {"weight_decy": 0}}, "fp16": {"enable": false},
 "tensorboard": {"enabled": true, "path": "logs"}})")),
      "ds.json:1:2: ds_config.gradient_cliping is not an option (did you mean 'gradient_clipping'?)\n"
      "ds.json:1:47: ds_config.zero_optimization.stge is not an option (did you mean 'stage'?)\n"
      "ds.json:1:76: ds_config.zero_optimization.offload_param.devise is not an option (did you mean "
      "'device'?)\n"
      "ds.json:2:44: ds_config.optimizer.params.weight_decy is not an option (did you mean 'weight_decay'?)\n"
      "ds.json:2:73: ds_config.fp16.enable is not an option (did you mean 'enabled'?)");
}

TEST_F(Deepspeed, RefusesUnsupportedFeatures) {
  EXPECT_EQ(problems(file(R"({"zero_optimization": {"stage": 3, "zero_hpz_partition_size": 2,
 "zero_quantized_weights": true}, "amp": {"enabled": "auto", "opt_level": "auto"},
 "curriculum_learning": {"enabled": true}, "elasticity": {"enabled": false, "version": 0.1}})")),
            "ds.json:2:2: ds_config.zero_optimization.zero_quantized_weights: true is not supported: communication is "
            "not quantized\n"
            "ds.json:3:2: ds_config.curriculum_learning: {enabled: true} is not supported: data.shuffle sets the "
            "sample order");
}

TEST_F(Deepspeed, ReportsUnreadableFiles) {
  EXPECT_EQ(problems(keys("deepspeed_config_file: lost.json")),
            "f.yaml:6:43: deepspeed_config.deepspeed_config_file: cannot read lost.json: No such file or directory; a "
            "relative path is looked up in the folder of the file that names it, then in the working folder");
  EXPECT_EQ(problems(file(R"({"zero_optimization": {"stage": 3,}})")),
            "ds.json:1:34: not JSON: there is a comma before the closing '}'");
  EXPECT_EQ(problems(file("[1]")), "ds.json:1:1: must be lines of 'key: value'; is a list");
  EXPECT_EQ(problems(file("")), "ds.json:1:1: not JSON: the document is empty");
  EXPECT_EQ(problems(file(R"({"gradient_clipping": 1, "gradient_clipping": 2})")),
            "ds.json:1:26: 'gradient_clipping' is given twice, with another value on line 1: leave one of them out");
}

// The argument of Hugging Face's TrainingArguments.

TEST_F(Deepspeed, IsEnabledByTrainingArguments) {
  write("ds.json", R"({"zero_optimization": {"stage": 3}})");
  const std::string argument = "training: {deepspeed: ds.json}\n";
  EXPECT_EQ(translated("distributed_type: NO\nuse_cpu: true\nmodel: {path: m}\ndata: {train: {path: a}}\n" + argument),
            "training.deepspeed ds.json -> num_processes: 1\n"
            "training.deepspeed ds.json -> distributed_type: FSDP, because ds_config.zero_optimization.stage is 3\n"
            "ds_config.zero_optimization.stage 3 -> fsdp_config.fsdp_sharding_strategy: FULL_SHARD\n");
  EXPECT_EQ(resolve(kRest + argument).config.distributed_type, DistributedType::kFsdp);
  EXPECT_EQ(resolve("distributed_type: MULTI_CPU\n" + kRest + argument).config.distributed_type,
            DistributedType::kFsdp);
  EXPECT_EQ(problems("distributed_type: FSDP\n" + kRest + argument),
            "f.yaml:6:23: training.deepspeed asks for DeepSpeed, but distributed_type is FSDP (f.yaml:1:19): give one "
            "of them");
  for (const char* nothing : {"null", "none", "false", "''"}) {
    const std::string text = fmt::format("training: {{deepspeed: {}}}\n", nothing);
    EXPECT_EQ(resolve("distributed_type: FSDP\n" + kRest + text).config.distributed_type, DistributedType::kFsdp);
  }
}

TEST_F(Deepspeed, AcceptsInlineKeys) {
  const Plan plan =
      resolve(kRest + "training:\n  deepspeed:\n    zero_optimization: {stage: 3}\n    gradient_clipping: 0.5\n");
  EXPECT_EQ(plan.config.distributed_type, DistributedType::kFsdp);
  EXPECT_EQ(without_folder(plan.origins.at("training.max_grad_norm")), "f.yaml:8:24");
  EXPECT_EQ(problems(kRest + "training: {deepspeed: {zero_optimization: {stag: 3}}}\n"),
            "f.yaml:5:44: ds_config.zero_optimization.stag is not an option (did you mean 'stage'?)");
}

TEST_F(Deepspeed, RefusesTwoDifferentFiles) {
  write("a.json", R"({"zero_optimization": {"stage": 3}})");
  write("b.json", R"({"zero_optimization": {"stage": 0}})");
  const std::string text = keys("deepspeed_config_file: a.json", "training: {deepspeed: b.json}\n");
  EXPECT_EQ(problems(text),
            "f.yaml:7:23: training.deepspeed is b.json, but deepspeed_config.deepspeed_config_file is a.json "
            "(f.yaml:6:43): give one of them");
  EXPECT_EQ(problems(keys("deepspeed_config_file: a.json", "training: {deepspeed: ./a.json}\n")), "");
  const std::string other = (folder_ / "b.json").string();
  EXPECT_EQ(resolve(keys("deepspeed_config_file: a.json"), {{"training.deepspeed", other, "--deepspeed"}})
                .config.distributed_type,
            DistributedType::kMultiCpu);
}

TEST_F(Deepspeed, FileCanBeInWorkingFolder) {
  const fs::path before = fs::current_path();
  fs::create_directories(folder_ / "configs");
  const std::string yaml = write("configs/f.yaml", keys("deepspeed_config_file: configs/ds.json"));
  write("configs/ds.json", R"({"zero_optimization": {"stage": 3}})");
  fs::current_path(folder_);
  EXPECT_EQ(resolve_plan({yaml, ""}).config.fsdp_config.sharding_strategy, ShardingStrategy::kFullShard);
  fs::create_directories(folder_ / "configs/configs");
  write("configs/configs/ds.json", R"({"zero_optimization": {"stage": 3}})");
  EXPECT_NO_THROW(resolve_plan({yaml, ""})) << "both exist and are equal";
  write("configs/configs/ds.json", R"({"zero_optimization": {"stage": 2}})");
  EXPECT_THROW(resolve_plan({yaml, ""}), ConfigError) << "both exist and differ";
  fs::current_path(before);
  EXPECT_EQ(problems(keys("deepspeed_config_file: none.json")),
            "f.yaml:6:43: deepspeed_config.deepspeed_config_file: cannot read none.json: No such file or directory; a "
            "relative path is looked up in the folder of the file that names it, then in the working folder");
}

TEST_F(Deepspeed, IgnoresWhatAccelerateIgnoresInItsSection) {
  EXPECT_EQ(
      without_effect(keys("zero_stage: 3, bf16: {enabled: true}, overlap_comm: true, stage3_max_live_parameters: 1e9, "
                          "gradient_clip: 1.0")),
      "deepspeed_config.bf16 {enabled: true} -> Accelerate reads it only in a ds_config.json, as bf16, and ignores it "
      "here\n"
      "deepspeed_config.overlap_comm true -> Accelerate reads it only in a ds_config.json, as "
      "zero_optimization.overlap_comm, and ignores it here\n"
      "deepspeed_config.stage3_max_live_parameters 1e9 -> Accelerate reads it only in a ds_config.json, as "
      "zero_optimization.stage3_max_live_parameters, and ignores it here\n"
      "deepspeed_config.gradient_clip 1.0 -> Accelerate ignores it; the key is gradient_clipping\n");
  EXPECT_NE(problems(keys("stage: 3")).find("did you mean 'zero_stage'?"), std::string::npos);
  EXPECT_NE(problems(keys("zero_stge: 3")).find("did you mean 'zero_stage'?"), std::string::npos);
  EXPECT_EQ(resolve(keys("zero_stage: 3, main_process_port: 29511")).config.main_process_port, 29511);
  EXPECT_NE(problems(keys("main_process_port: 1", "main_process_port: 2\n")), "");
}

TEST_F(Deepspeed, IgnoresWhatDeepspeedIgnoresInItsFile) {
  const std::string json = R"({"_comment": "x", "comms_config": {"a": 1}, "monitor_config": {"b": 2}, "logging": {},
    "int8": {"enabled": true}, "memory_optimization": {"c": 3}, "overlap_comm": true, "zero_optimization":
    {"zero_hpz_partition_size": 8}, "fp16": {"opt_level": "O2"}, "bf16": {"loss_scale": 0}, "flops_profiler": {"x": 1}})";
  EXPECT_EQ(warnings(file(json)),
            "ds.json: these keys have no effect here: _comment, comms_config, monitor_config, logging, int8, "
            "memory_optimization, overlap_comm, opt_level, loss_scale, zero_hpz_partition_size, flops_profiler (see "
            "`trainer check`)\n");
  EXPECT_NE(problems(file(R"({"gradient_cliping": 1})")).find("did you mean 'gradient_clipping'?"), std::string::npos);
  EXPECT_NE(problems(file(R"({"fp16": {"enable": true}})")).find("did you mean 'enabled'?"), std::string::npos);
}

TEST_F(Deepspeed, ReadsFilesOfItsFirstVersions) {
  EXPECT_EQ(resolve(file(R"({"zero_optimization": true})")).config.fsdp_config.sharding_strategy,
            ShardingStrategy::kShardGradOp);
  EXPECT_EQ(resolve(file(R"({"zero_optimization": false})")).config.distributed_type, DistributedType::kMultiCpu);
}

TEST_F(Deepspeed, OptimizerClippingMustEqualGradientClipping) {
  const auto with = [&](const std::string& clipping) {
    return file(R"({"optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "max_grad_norm": 1.0}})" + clipping + "}");
  };
  EXPECT_EQ(without_effect(with(", \"gradient_clipping\": 1")),
            "ds_config.optimizer.params.max_grad_norm 1.0 -> training.max_grad_norm, which gradient_clipping sets, is "
            "the same\n");
  EXPECT_EQ(problems(with(", \"gradient_clipping\": 0.5")),
            "ds.json:1:73: ds_config.optimizer.params.max_grad_norm: 1.0 is not supported: use gradient_clipping, "
            "outside optimizer, which is 0.5");
}

TEST_F(Deepspeed, ScheduleOverridesLearningRateOfOptimizer) {
  const std::string json = R"({"optimizer": {"type": "AdamW", "params": {"lr": 1e-4}}, "scheduler": {"type": "WarmupLR",
    "params": {"warmup_max_lr": 6e-4, "warmup_num_steps": 0}}})";
  const Plan plan = resolve(file(json));
  EXPECT_EQ(plan.config.training.learning_rate, 6e-4);
  EXPECT_EQ(plan.config.training.warmup_steps, 0);
  EXPECT_EQ(without_effect(file(json)),
            "ds_config.optimizer.params.lr 0.0001 -> the schedule sets the learning rate, which rises to "
            "warmup_max_lr\n");
  EXPECT_NE(warnings(file(json))
                .find("ds_config.scheduler.params.warmup_num_steps is 0, which is treated as 2, as in DeepSpeed"),
            std::string::npos);
}

TEST_F(Deepspeed, TranslatesTensorParallelism) {
  const Plan plan = resolve(file(R"({"zero_optimization": {"stage": 2}, "tensor_parallel": {"autotp_size": 2}})"));
  EXPECT_EQ(plan.config.parallelism_config->tp_size, 2);
  EXPECT_NE(problems(file(R"({"pipeline": {"stages": 4}})")).find("set parallelism_config_pp_size"), std::string::npos);
  EXPECT_EQ(problems(file(R"({"pipeline": {"seed_layers": true}})")), "");
}

}  // namespace
}  // namespace trainer::config
