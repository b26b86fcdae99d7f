// Accelerate's files: its keys, codes, traps and spellings.
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

TEST_F(Accelerate, ItsOwnFile) {
  const Plan plan = resolve(kFsdp1 + kOurs);
  EXPECT_EQ(plan.config.distributed_type, DistributedType::kFsdp);
  EXPECT_EQ(plan.config.fsdp_config.transformer_layer_cls_to_wrap, std::vector<std::string>{"T5Block"});
  ASSERT_EQ(plan.warnings.size(), 1u);
  EXPECT_EQ(without_folder(plan.warnings[0]),
            "f.yaml: these keys have no effect here: fsdp_offload_params, fsdp_state_dict_type, fsdp_forward_prefetch, "
            "fsdp_use_orig_params, fsdp_cpu_ram_efficient_loading, fsdp_sync_module_states, downcast_bf16, "
            "enable_cpu_affinity, main_training_function, rdzv_backend, same_network, tpu_env, tpu_use_cluster, "
            "tpu_use_sudo");
}

TEST_F(Accelerate, WordsThatYamlTakesForTruths) {
  const Plan plan = resolve("distributed_type: NO\nmixed_precision: no\nuse_cpu: yes\ndebug: off\n" + kOurs);
  EXPECT_EQ(plan.config.distributed_type, DistributedType::kNo);
  EXPECT_EQ(plan.config.mixed_precision, MixedPrecision::kNo);
  EXPECT_TRUE(plan.config.use_cpu);
  EXPECT_EQ(resolve("distributed_type: false\nmixed_precision: False\nuse_cpu: true\n" + kOurs).config.distributed_type,
            DistributedType::kNo);
}

TEST_F(Accelerate, PrefixesCasesAndCodes) {
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

TEST_F(Accelerate, StrategiesOfLaterVersionsAreRefused) {
  EXPECT_EQ(
      fsdp_problems("fsdp_sharding_strategy: 2"),
      "f.yaml:6:39: fsdp_config.fsdp_sharding_strategy SHARD_GRAD_OP is not supported by this version; FULL_SHARD is");
  EXPECT_EQ(fsdp_problems("auto_wrap_policy: SIZE_BASED_WRAP"),
            "f.yaml:6:33: fsdp_config.fsdp_auto_wrap_policy SIZE_BASED_WRAP is not supported by this version; "
            "TRANSFORMER_BASED_WRAP or NO_WRAP is");
}

TEST_F(Accelerate, TheStrategyUnderTheOtherKeyIsHonoured) {
  EXPECT_EQ(
      fsdp_problems("fsdp_reshard_after_forward: SHARD_GRAD_OP"),
      "f.yaml:6:43: fsdp_config.fsdp_sharding_strategy SHARD_GRAD_OP is not supported by this version; FULL_SHARD is");
  EXPECT_EQ(fsdp_problems("fsdp_reshard_after_forward: false, fsdp_version: 2").substr(0, 12), "f.yaml:6:43:");
  EXPECT_EQ(fsdp_problems("fsdp_reshard_after_forward: true, fsdp_version: 2"), "");
  EXPECT_EQ(
      fsdp_problems("fsdp_reshard_after_forward: maybe"),
      "f.yaml:6:43: fsdp_config.fsdp_reshard_after_forward must be true, false or a sharding strategy; is 'maybe'");
  EXPECT_EQ(fsdp_warnings("fsdp_sharding_strategy: FULL_SHARD, fsdp_reshard_after_forward: NO_SHARD"),
            "f.yaml:6:79: fsdp_reshard_after_forward has no effect beside fsdp_sharding_strategy\n");
}

TEST_F(Accelerate, StrategiesOfOtherHardware) {
  const std::string file = "num_processes: 2\n" + kOurs + "distributed_type: ";
  EXPECT_EQ(
      problems(file + "MULTI_GPU\n"),
      "f.yaml:4:19: distributed_type MULTI_GPU is not supported by this version (it needs GPU support; with --cpu or "
      "use_cpu: true it runs as MULTI_CPU); NO or MULTI_CPU or FSDP is");
  EXPECT_EQ(warnings(file + "MULTI_GPU\n", {{"use_cpu", "true", "--cpu"}}),
            "f.yaml:4:19: distributed_type MULTI_GPU runs as MULTI_CPU, because use_cpu is true\n");
  EXPECT_EQ(problems(file + "DEEPSPEED\n"), "f.yaml:4:19: distributed_type DEEPSPEED is not supported by this version");
  EXPECT_EQ(
      problems(file + "FSPD\n"),
      "f.yaml:4:19: distributed_type must be one of NO, MULTI_CPU, MULTI_GPU, FSDP; is 'FSPD' (did you mean 'FSDP'?)");
}

TEST_F(Accelerate, OtherEnginesAreRefusedWhereTheyAskForSomething) {
  const std::string harmless =
      "deepspeed_config: {}\ndynamo_backend: 'NO'\ndynamo_config: {dynamo_backend: NO, dynamo_mode: default}\n"
      "megatron_lm_config:\ntpu_name: null\nparallelism_config: {parallelism_config_tp_size: 1}\n";
  EXPECT_EQ(problems(kLeast + harmless), "");
  EXPECT_EQ(problems(kLeast +
                     "deepspeed_config: {zero_stage: 2}\ndynamo_backend: INDUCTOR\ntpu_use_cluster: true\nfp16: false\n"
                     "parallelism_config: {parallelism_config_tp_size: 2}\n"),
            "f.yaml:5:1: deepspeed_config is not supported by this version\n"
            "f.yaml:6:1: dynamo_backend is not supported by this version\n"
            "f.yaml:7:1: tpu_use_cluster is not supported by this version\n"
            "f.yaml:9:1: parallelism_config is not supported by this version");
}

TEST_F(Accelerate, HalfPrecision) {
  const std::string why =
      " is not supported by this version (on a CPU fp16 loses small gradients and is slower; it needs GPU "
      "support); no or bf16 is";
  EXPECT_EQ(problems(kLeast + "mixed_precision: FP16\n"), "f.yaml:5:18: mixed_precision fp16" + why);
  EXPECT_EQ(problems(kLeast + "fp16: true\n"), "f.yaml:5:7: mixed_precision fp16" + why);
  EXPECT_EQ(problems(kLeast + "mixed_precision: fp8\n"),
            "f.yaml:5:18: mixed_precision fp8 is not supported by this version");
  EXPECT_EQ(resolve(kLeast + "mixed_precision: BF16\n").config.mixed_precision, MixedPrecision::kBf16);
}

}  // namespace
}  // namespace trainer::config
