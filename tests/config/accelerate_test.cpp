// Accelerate's files: its keys, numeric codes, pitfalls and spellings.
#include "tests/config/given.h"

namespace trainer::config {
namespace {

/// As `accelerate config` writes it for FSDP 1.
const std::string kFsdp1 =
    "compute_environment: LOCAL_MACHINE\n"
    "debug: false\n"
    "distributed_type: FSDP\n"
    "downcast_bf16: 'no'\n"
    "enable_cpu_affinity: false\n"
    "fsdp_config:\n"
    "  fsdp_activation_checkpointing: false\n"
    "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
    "  fsdp_backward_prefetch: BACKWARD_PRE\n"
    "  fsdp_cpu_ram_efficient_loading: true\n"
    "  fsdp_forward_prefetch: false\n"
    "  fsdp_offload_params: false\n"
    "  fsdp_reshard_after_forward: FULL_SHARD\n"
    "  fsdp_state_dict_type: FULL_STATE_DICT\n"
    "  fsdp_sync_module_states: true\n"
    "  fsdp_transformer_layer_cls_to_wrap: T5Block\n"
    "  fsdp_use_orig_params: true\n"
    "  fsdp_version: 1\n"
    "machine_rank: 0\n"
    "main_training_function: main\n"
    "mixed_precision: 'no'\n"
    "num_machines: 1\n"
    "num_processes: 2\n"
    "rdzv_backend: static\n"
    "same_network: true\n"
    "tpu_env: []\n"
    "tpu_use_cluster: false\n"
    "tpu_use_sudo: false\n"
    "use_cpu: true\n";
const std::string kOurs = "model: {path: m}\ndata: {train: {path: a}}\n";

class Accelerate : public Given {
 protected:
  Plan fsdp(const std::string& options) { return resolve(file(options)); }
  std::string fsdp_problems(const std::string& options) { return problems(file(options)); }
  std::string fsdp_warnings(const std::string& options) { return warnings(file(options)); }
  static std::string file(const std::string& options) {
    return "distributed_type: FSDP\nnum_processes: 2\nuse_cpu: true\n" + kOurs + "fsdp_config: {" + options + "}\n";
  }
};

TEST_F(Accelerate, ReadsFileOfItsWizard) {
  const Plan plan = resolve(kFsdp1 + kOurs);
  EXPECT_EQ(plan.config.distributed_type, DistributedType::kFsdp);
  EXPECT_EQ(plan.config.fsdp_config.transformer_layer_cls_to_wrap, std::vector<std::string>{"T5Block"});
  EXPECT_TRUE(plan.warnings.empty());
  EXPECT_EQ(fsdp_warnings("fsdp_state_dict_type: 2"),
            "f.yaml: these keys have no effect here: fsdp_state_dict_type (see `trainer check`)\n");
}

TEST_F(Accelerate, ReadsNamesThatYamlParsesAsBooleans) {
  const Plan plan = resolve("distributed_type: NO\nmixed_precision: no\nuse_cpu: yes\ndebug: off\n" + kOurs);
  EXPECT_EQ(plan.config.distributed_type, DistributedType::kNo);
  EXPECT_EQ(plan.config.mixed_precision, MixedPrecision::kNo);
  EXPECT_TRUE(plan.config.use_cpu);
  EXPECT_EQ(resolve("distributed_type: false\nmixed_precision: False\nuse_cpu: true\n" + kOurs).config.distributed_type,
            DistributedType::kNo);
}

TEST_F(Accelerate, ReadsKeysWithoutPrefixAndValuesInAnyCaseOrAsCodes) {
  const FsdpConfig config = fsdp(
                                "sharding_strategy: 1, auto_wrap_policy: no_wrap, fsdp_min_num_params: 1e8, "
                                "backward_prefetch: 2, state_dict_type: 3, fsdp_version: 2")
                                .config.fsdp_config;
  EXPECT_EQ(config.sharding_strategy, ShardingStrategy::kFullShard);
  EXPECT_EQ(config.auto_wrap_policy, WrapPolicy::kNoWrap);
  EXPECT_EQ(config.min_num_params, 100'000'000);
  EXPECT_EQ(config.backward_prefetch, BackwardPrefetch::kPost);
  EXPECT_EQ(config.state_dict_type, StateDictType::kSharded);
  EXPECT_EQ(fsdp("transformer_layer_cls_to_wrap: 'T5Block, Other'").config.fsdp_config.transformer_layer_cls_to_wrap,
            (std::vector<std::string>{"T5Block", "Other"}));
}

TEST_F(Accelerate, ReplacesStrategiesByEquivalentsOnOneMachine) {
  auto strategy = [&](const std::string& given) {
    return fsdp("fsdp_sharding_strategy: " + given).config.fsdp_config.sharding_strategy;
  };
  EXPECT_EQ(strategy("2"), ShardingStrategy::kShardGradOp);
  EXPECT_EQ(strategy("HYBRID_SHARD"), ShardingStrategy::kFullShard);
  EXPECT_EQ(strategy("HYBRID_SHARD_ZERO2"), ShardingStrategy::kShardGradOp);
  const Plan plan = fsdp("fsdp_sharding_strategy: no_shard, fsdp_offload_params: true");
  EXPECT_EQ(plan.config.distributed_type, DistributedType::kMultiCpu);
  ASSERT_EQ(plan.translated.size(), 2u);
  EXPECT_EQ(plan.translated[0].text, "distributed_type: MULTI_GPU, because nothing is sharded");
}

TEST_F(Accelerate, HybridShardReadsReplicasFromMeshSizes) {
  const auto with = [&](const std::string& strategy, int ranks, const std::string& sizes) {
    return fmt::format(
        "distributed_type: FSDP\nnum_processes: {}\nuse_cpu: true\n{}fsdp_config: {{sharding_strategy: {}}}\n"
        "parallelism_config: {{{}}}\n",
        ranks, kOurs, strategy, sizes);
  };
  const std::string replicate = "parallelism_config_dp_replicate_size: ", shard = "parallelism_config_dp_shard_size: ";
  const Plan plan = resolve(with("HYBRID_SHARD_ZERO2", 4, replicate + "2, " + shard + "2"));
  EXPECT_EQ(plan.config.fsdp_config.sharding_strategy, ShardingStrategy::kHybridShardZero2);
  EXPECT_EQ(problems(with("HYBRID_SHARD", 6, replicate + "3")), "");
  EXPECT_EQ(problems(with("HYBRID_SHARD", 6, shard + "2, " + replicate + "2")),
            "f.yaml:7:56: the sizes of parallelism_config multiply to 4, but num_processes is 6: make them equal");
  EXPECT_EQ(problems(with("FULL_SHARD", 6, replicate + "4")),
            "f.yaml:7:60: parallelism_config_dp_replicate_size is 4, but num_processes is 6: num_processes must be a "
            "multiple of it");
}

TEST_F(Accelerate, ReadsStrategyFromReshardAfterForward) {
  auto strategy = [&](const std::string& options) {
    return fsdp("fsdp_reshard_after_forward: " + options).config.fsdp_config.sharding_strategy;
  };
  EXPECT_EQ(strategy("SHARD_GRAD_OP"), ShardingStrategy::kShardGradOp);
  EXPECT_EQ(strategy("false, fsdp_version: 2"), ShardingStrategy::kShardGradOp);
  EXPECT_EQ(strategy("true, fsdp_version: 2"), ShardingStrategy::kFullShard);
  EXPECT_EQ(
      fsdp_warnings("fsdp_reshard_after_forward: SHARD_GRAD_OP"),
      "f.yaml:6:43: fsdp_reshard_after_forward names the strategy SHARD_GRAD_OP, which is used; Accelerate itself "
      "would ignore it and use FULL_SHARD\n");
  EXPECT_EQ(fsdp_problems("fsdp_reshard_after_forward: true, fsdp_version: 2"), "");
  EXPECT_EQ(
      fsdp_problems("fsdp_reshard_after_forward: maybe"),
      "f.yaml:6:43: fsdp_config.fsdp_reshard_after_forward must be true, false or a sharding strategy; is 'maybe'");
  EXPECT_EQ(fsdp_warnings("fsdp_sharding_strategy: FULL_SHARD, fsdp_reshard_after_forward: NO_SHARD"),
            "f.yaml: these keys have no effect here: fsdp_reshard_after_forward (see `trainer check`)\n");
}

TEST_F(Accelerate, Version2StrategyMustAgreeWithReshardAfterForward) {
  auto strategy = [&](const std::string& given, const std::string& truth) {
    const std::string options = "fsdp_version: 2, fsdp_sharding_strategy: " + given;
    return fsdp(options + ", fsdp_reshard_after_forward: " + truth).config;
  };
  EXPECT_EQ(strategy("HYBRID_SHARD", "true").fsdp_config.sharding_strategy, ShardingStrategy::kFullShard);
  EXPECT_EQ(strategy("HYBRID_SHARD_ZERO2", "false").fsdp_config.sharding_strategy, ShardingStrategy::kShardGradOp);
  EXPECT_EQ(strategy("NO_SHARD", "false").distributed_type, DistributedType::kMultiCpu);
  EXPECT_NE(fsdp_problems("fsdp_version: 2, fsdp_sharding_strategy: FULL_SHARD, fsdp_reshard_after_forward: false"),
            "");
}

TEST_F(Accelerate, RefusesTypesOfOtherHardware) {
  const std::string file = "num_processes: 2\n" + kOurs + "distributed_type: ";
  const std::string why =
      " with use_cpu false trains on GPUs, and this build has no GPU support: --cpu (or use_cpu: true) trains on the "
      "CPU instead";
  for (const std::string type : {"MULTI_GPU", "FSDP", "MEGATRON_LM"}) {
    EXPECT_EQ(problems(file + type + "\n"), "f.yaml:4:19: distributed_type " + type + why);
  }
  const Plan rehearsed = resolve(file + "MULTI_GPU\n", {{"use_cpu", "true", "--cpu"}});
  EXPECT_EQ(rehearsed.config.distributed_type, DistributedType::kMultiCpu);
  ASSERT_EQ(rehearsed.translated.size(), 1u);
  EXPECT_EQ(rehearsed.translated[0].text, "distributed_type: MULTI_CPU, because use_cpu is true");
  EXPECT_EQ(problems(file + "MULTI_XPU\n"),
            "f.yaml:4:19: distributed_type MULTI_XPU is not supported: it is for Intel's GPUs, which this build can't "
            "use; --cpu (or use_cpu: true) trains on the CPU instead");
  EXPECT_EQ(problems(file + "FSPD\n"),
            "f.yaml:4:19: distributed_type must be one of NO, MULTI_CPU, MULTI_GPU, FSDP, DEEPSPEED, MEGATRON_LM, "
            "DATA_PARALLEL; is 'FSPD' (did you mean 'FSDP'?)");
}

TEST_F(Accelerate, AcceptsSectionsOfOtherEnginesThatRequestNothing) {
  const std::string harmless =
      "deepspeed_config: {}\ndynamo_backend: 'NO'\ndynamo_config: {dynamo_backend: NO, dynamo_mode: default}\n"
      "megatron_lm_config:\ntpu_name: null\nparallelism_config: {parallelism_config_tp_size: 1}\n";
  EXPECT_EQ(problems(kLeast + harmless), "");
  EXPECT_EQ(warnings(kLeast + harmless), "");
  EXPECT_EQ(problems(kLeast + "dynamo_backend: INDUCTOR\ntpu_use_cluster: true\nfp16: false\n"
                              "parallelism_config: {parallelism_config_tp_size: 2}\n"),
            "f.yaml:8:50: parallelism_config_tp_size is 2, but num_processes is 1: num_processes must be a multiple of "
            "it");
}

TEST_F(Accelerate, ReportsKeysThatHaveNoEffect) {
  const std::string given =
      "gpu_ids: 0\ntpu_env: ['']\ntpu_use_sudo: 'yes'\ncommands: [a, b]\nfp8_config: {override_linear_precision: "
      "[true, "
      "false, true]}\nsame_network: false\nmain_process_ip: null\nnum_processes: 1\nipex_config: {ipex: true}\n";
  EXPECT_EQ(problems(kLeast + given), "");
  EXPECT_EQ(warnings(kLeast + given),
            "f.yaml:5:10: gpu_ids has no effect unless ranks train on GPUs\n"
            "f.yaml: these keys have no effect here: tpu_use_sudo, commands, fp8_override_linear_precision, ipex (see "
            "`trainer check`)\n");
}

TEST_F(Accelerate, NumProcessesIsRequiredOnTheCpu) {
  EXPECT_EQ(problems("distributed_type: FSDP\nuse_cpu: true\n" + kOurs),
            "f.yaml: num_processes is required when distributed_type is FSDP");
  EXPECT_EQ(problems("distributed_type: MEGATRON_LM\nuse_cpu: true\n" + kOurs),
            "f.yaml: num_processes is required when distributed_type is MEGATRON_LM");
}

TEST_F(Accelerate, ReportsOneProblemForSageMaker) {
  EXPECT_EQ(problems("compute_environment: AMAZON_SAGEMAKER\ndistributed_type: MODEL_PARALLEL\nregion: us-east-1\n"
                     "ec2_instance_type: ml.p3.2xlarge\nmixed_precision: fp16\n"),
            "f.yaml:1:22: compute_environment AMAZON_SAGEMAKER is not supported: run `trainer launch` inside the job, "
            "with a file for LOCAL_MACHINE");
}

TEST_F(Accelerate, ReadsHalfPrecision) {
  EXPECT_EQ(resolve(kLeast + "mixed_precision: FP16\n").config.mixed_precision, MixedPrecision::kFp16);
  EXPECT_EQ(resolve(kLeast + "fp16: true\n").config.mixed_precision, MixedPrecision::kFp16);
  EXPECT_EQ(problems(kLeast + "mixed_precision: fp8\n"),
            "f.yaml:5:18: mixed_precision fp8 is not supported: use bf16 instead");
  EXPECT_EQ(resolve(kLeast + "mixed_precision: BF16\n").config.mixed_precision, MixedPrecision::kBf16);
}

TEST_F(Accelerate, NullAndNoRunOneProcess) {
  const std::string rest = "use_cpu: true\n" + kOurs;
  for (const char* type : {"null", "'NO'", "no", "~", ""}) {
    const Plan plan = resolve(fmt::format("distributed_type: {}\n", type) + rest);
    EXPECT_EQ(plan.config.distributed_type, DistributedType::kNo) << type;
    EXPECT_EQ(plan.config.num_processes, 1);
  }
  for (const char* ranks : {"8", "0", "-1"}) {
    const std::string text = fmt::format("distributed_type: 'NO'\nnum_processes: {}\n", ranks) + rest;
    EXPECT_EQ(resolve(text).config.num_processes, 1);
    EXPECT_EQ(warnings(text),
              fmt::format("f.yaml:2:16: num_processes is {}, but distributed_type NO runs one process: for more, use "
                          "MULTI_CPU, MULTI_GPU or FSDP\n",
                          ranks));
  }
  EXPECT_EQ(warnings("distributed_type: 'NO'\nnum_processes: 1\n" + rest), "");
  EXPECT_NE(problems("distributed_type: 'NO'\n" + rest, {{"num_processes", "2", "--num_processes"}}), "")
      << "a number set by a flag is not reduced";
  EXPECT_NE(problems(rest).find("distributed_type is required: one of NO, MULTI_CPU, MULTI_GPU, FSDP, DEEPSPEED"),
            std::string::npos);
}

TEST_F(Accelerate, OtherVendorsDevicesRunOnTheCpuIfRequested) {
  const std::string rest = "num_processes: 2\n" + kOurs;
  const std::vector<Override> cpu{{"use_cpu", "true", "--cpu"}};
  for (const char* type : {"MULTI_NPU", "MULTI_XPU", "MULTI_MLU", "XLA", "TPU", "multi_hpu"}) {
    const std::string text = fmt::format("distributed_type: {}\n", type) + rest;
    const Plan plan = resolve(text, cpu);
    EXPECT_EQ(plan.config.distributed_type, DistributedType::kMultiCpu) << type;
    EXPECT_EQ(plan.translated.back().value, type);
    EXPECT_EQ(plan.translated.back().text, "distributed_type: MULTI_CPU, because use_cpu is true");
    EXPECT_NE(problems(text).find("which this build can't use; --cpu (or use_cpu: true) trains on the CPU instead"),
              std::string::npos);
  }
  EXPECT_EQ(resolve("distributed_type: MPS\n" + kOurs, cpu).config.distributed_type, DistributedType::kNo);
  const std::vector<Override> fsdp{{"use_cpu", "true", "--cpu"}, {"distributed_type", "FSDP", "--use_fsdp"}};
  EXPECT_EQ(resolve("distributed_type: MULTI_NPU\n" + rest, fsdp).config.distributed_type, DistributedType::kFsdp);
}

TEST_F(Accelerate, ReadsOlderKeysOfTensorParallelism) {
  const Plan plan = resolve("distributed_type: TP\nuse_cpu: true\nnum_processes: 4\ntp_config: {tp_size: 2}\n" + kOurs);
  EXPECT_EQ(plan.config.distributed_type, DistributedType::kMultiCpu);
  EXPECT_EQ(plan.config.parallelism_config->tp_size, 2);
}

TEST_F(Accelerate, WarnsAboutBadValuesOfKeysWithoutEffect) {
  const std::string text =
      "downcast_bf16: auto\nuse_ipex: maybe\nfsdp_config: {fsdp_limit_all_gathers: sometimes, fsdp_mixed_precision: "
      "bf16, fsdp_use_orig_params: auto}\ndistributed_type: FSDP\nnum_processes: 2\nuse_cpu: true\n" +
      kOurs;
  EXPECT_EQ(warnings(text),
            "f.yaml: these keys have no effect here: fsdp_use_orig_params, fsdp_mixed_precision, limit_all_gathers, "
            "downcast_bf16, use_ipex (see `trainer check`)\n");
  EXPECT_NE(problems("downcast_bf17: auto\n" + text).find("did you mean 'downcast_bf16'?"), std::string::npos);
  EXPECT_EQ(problems(kOurs + "use_cpu: true\ndistributed_type: MEGATRON_LM\nnum_processes: 2\n"
                             "megatron_lm_config: {megatron_lm_learning_rate_decay_iters: 100}\n"),
            "");
}

TEST_F(Accelerate, WarnsAboutEqualDuplicatesAndRefusesOthers) {
  const std::string rest = "distributed_type: NO\nuse_cpu: true\n" + kOurs;
  EXPECT_EQ(warnings(rest + "seed: 7\nseed: 7\n"),
            "f.yaml:6:1: 'seed' is given twice, with the same value on line 5: one of them is enough\n");
  EXPECT_EQ(problems(rest + "seed: 7\nseed: 8\n"),
            "f.yaml:6:1: 'seed' is given twice, with another value on line 5: leave one of them out");
  EXPECT_EQ(warnings(rest + "tpu_env: []\ntpu_env: []\n"),
            "f.yaml:6:1: 'tpu_env' is given twice, with the same value on line 5: one of them is enough\n");
}

}  // namespace
}  // namespace trainer::config
