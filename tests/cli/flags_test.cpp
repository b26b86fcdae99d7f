// The flags of `trainer launch`: which exist, and what each one sets.
#include <algorithm>
#include <filesystem>
#include <set>

#include <gtest/gtest.h>

#include "engine/cli/launch_flags.h"

namespace trainer::cli {
namespace {

const LaunchFlag* find(const std::string& name) {
  for (const LaunchFlag& flag : launch_flags()) {
    if (flag.name == name || std::count(flag.others.begin(), flag.others.end(), name)) return &flag;
  }
  return nullptr;
}

/// The combined effect of `flags` (name and value).
Asked asked(const std::vector<std::pair<std::string, std::string>>& flags) {
  Asked asked;
  for (const auto& [name, value] : flags) {
    const LaunchFlag* flag = find(name);
    if (flag) ask(*flag, value, asked);
    EXPECT_TRUE(flag) << name;
  }
  finish(asked);
  return asked;
}

std::string overrides(const Asked& asked) {
  std::string text;
  for (const auto& given : asked.sources.overrides)
    text += given.path + "=" + given.value + " by " + given.source + "\n";
  return text;
}

std::string problems(const Asked& asked) {
  std::string text;
  for (const auto& problem : asked.sources.problems) text += to_string(problem) + "\n";
  return text;
}

TEST(LaunchFlags, HasAllOfAccelerates) {
  for (const char* name : {"--quiet",
                           "-q",
                           "--module",
                           "-m",
                           "--no_python",
                           "--debug",
                           "--cpu",
                           "--multi_gpu",
                           "--tpu",
                           "--mixed_precision",
                           "--num_processes",
                           "--num_machines",
                           "--num_cpu_threads_per_process",
                           "--enable_cpu_affinity",
                           "--dynamo_backend",
                           "--dynamo_mode",
                           "--dynamo_use_fullgraph",
                           "--dynamo_use_dynamic",
                           "--dynamo_use_regional_compilation",
                           "--use_deepspeed",
                           "--use_fsdp",
                           "--use_parallelism_config",
                           "--use_megatron_lm",
                           "--gpu_ids",
                           "--same_network",
                           "--machine_rank",
                           "--main_process_ip",
                           "--main_process_port",
                           "--tee",
                           "-t",
                           "--log_dir",
                           "--role",
                           "--rdzv_backend",
                           "--rdzv_conf",
                           "--max_restarts",
                           "--monitor_interval",
                           "--tpu_cluster",
                           "--no_tpu_cluster",
                           "--tpu_use_sudo",
                           "--vm",
                           "--env",
                           "--main_training_function",
                           "--downcast_bf16",
                           "--deepspeed_config_file",
                           "--zero_stage",
                           "--offload_optimizer_device",
                           "--offload_param_device",
                           "--offload_optimizer_nvme_path",
                           "--offload_param_nvme_path",
                           "--gradient_accumulation_steps",
                           "--gradient_clipping",
                           "--zero3_init_flag",
                           "--zero3_save_16bit_model",
                           "--deepspeed_hostfile",
                           "--deepspeed_exclusion_filter",
                           "--deepspeed_inclusion_filter",
                           "--deepspeed_multinode_launcher",
                           "--deepspeed_moe_layer_cls_names",
                           "--aws_access_key_id",
                           "--aws_secret_access_key",
                           "--mpirun_hostfile"}) {
    EXPECT_TRUE(find(name)) << name;
  }
  const auto all_of = [](const std::string& prefix, const std::vector<const char*>& names) {
    for (const char* name : names) EXPECT_TRUE(find(prefix + name)) << prefix << name;
  };
  all_of("--fsdp_", {"version", "offload_params", "min_num_params", "sharding_strategy", "reshard_after_forward",
                     "auto_wrap_policy", "transformer_layer_cls_to_wrap", "backward_prefetch", "state_dict_type",
                     "forward_prefetch", "use_orig_params", "cpu_ram_efficient_loading", "sync_module_states",
                     "activation_checkpointing", "activation_checkpointing_offload", "backward_prefetch_policy"});
  all_of("--megatron_lm_", {"tp_degree",
                            "pp_degree",
                            "gradient_clipping",
                            "num_micro_batches",
                            "sequence_parallelism",
                            "recompute_activations",
                            "use_distributed_optimizer",
                            "use_custom_fsdp",
                            "no_load_optim",
                            "no_save_optim",
                            "eod_mask_loss",
                            "overlap_cpu_optimizer_d2h_h2d",
                            "optimizer_cpu_offload",
                            "use_precision_aware_optimizer",
                            "decoder_last_pipeline_num_layers",
                            "recompute_granularity",
                            "recompute_method",
                            "recompute_num_layers",
                            "attention_backend",
                            "expert_model_parallel_size",
                            "context_parallel_size",
                            "attention_dropout",
                            "hidden_dropout",
                            "attention_softmax_in_fp32",
                            "expert_tensor_parallel_size",
                            "calculate_per_token_loss",
                            "use_rotary_position_embeddings"});
  all_of("--fp8_", {"backend", "use_autocast_during_eval", "margin", "interval", "format", "amax_history_len",
                    "amax_compute_algo", "override_linear_precision", "opt_level", "enable_fsdp_float8_all_gather",
                    "pad_inner_dim"});
  all_of("--parallelism_config_",
         {"dp_replicate_size", "dp_shard_size", "tp_size", "cp_size", "sp_size", "cp_backend", "cp_comm_strategy",
          "sp_backend", "sp_seq_length", "sp_seq_length_is_variable", "sp_attn_implementation"});
}

TEST(LaunchFlags, NamesAreUniqueAndEachHasHelp) {
  std::set<std::string> seen{"--config_file", "--set", "--help", "-h", "--json"};
  for (const LaunchFlag& flag : launch_flags()) {
    EXPECT_TRUE(seen.insert(flag.name).second) << flag.name;
    for (const std::string& other : flag.others) EXPECT_TRUE(seen.insert(other).second) << other;
    EXPECT_FALSE(flag.help.empty()) << flag.name;
  }
}

TEST(LaunchFlags, SameFlagsNeedNoValueAsInAccelerate) {
  for (const char* name : {"--cpu", "--debug", "--same_network", "--enable_cpu_affinity", "--downcast_bf16",
                           "--dynamo_use_fullgraph", "--fp8_use_autocast_during_eval", "--standalone", "--tpu"}) {
    EXPECT_TRUE(find(name)->is_truth()) << name;
  }
  for (const char* name : {"--num_processes", "--tee", "--deepspeed", "--fsdp_sharding_strategy", "--zero_stage"}) {
    EXPECT_FALSE(find(name)->is_truth()) << name;
  }
}

std::string ranks_of_each(const Asked& asked) {
  return asked.sources.ranks_per_machine ? asked.sources.ranks_per_machine->value : "";
}

TEST(LaunchFlags, SetsRanksPerMachine) {
  EXPECT_EQ(ranks_of_each(asked({{"--nproc_per_node", "4"}})), "4");
  EXPECT_EQ(ranks_of_each(asked({{"--npus_per_node", "2"}, {"--num_machines", "2"}})), "2");
  EXPECT_EQ(overrides(asked({{"--nnodes", "3:3"}, {"--nproc_per_node", "4"}})), "num_machines=3:3 by --nnodes\n");
  EXPECT_GE(std::stoi(ranks_of_each(asked({{"--nproc_per_node", "cpu"}}))), 1);
  EXPECT_GE(std::stoi(ranks_of_each(asked({{"--nproc_per_node", "auto"}}))), 1);
  for (const char* bad : {"0", "-1", "many", ""}) {
    EXPECT_EQ(problems(asked({{"--nproc_per_node", bad}})),
              fmt::format("--nproc_per_node: must be a number, auto, cpu or gpu; is '{}'\n", bad));
  }
}

TEST(LaunchFlags, SetsMachinesAndRendezvous) {
  EXPECT_EQ(overrides(asked({{"--nnodes", "1:4"}})), "num_machines=1:4 by --nnodes\n");
  EXPECT_EQ(overrides(asked({{"--rdzv_endpoint", "head:29400"}})),
            "main_process_ip=head by --rdzv_endpoint\nmain_process_port=29400 by --rdzv_endpoint\n");
  EXPECT_EQ(overrides(asked({{"--rdzv_endpoint", "[::1]:7"}})),
            "main_process_ip=::1 by --rdzv_endpoint\nmain_process_port=7 by --rdzv_endpoint\n");
  EXPECT_EQ(overrides(asked({{"--rdzv_endpoint", "head"}})), "main_process_ip=head by --rdzv_endpoint\n");
  EXPECT_EQ(
      overrides(asked({{"--node_rank", "1"}, {"--master_addr", "h"}, {"--master_port", "5"}})),
      "machine_rank=1 by --node_rank\nmain_process_ip=h by --master_addr\nmain_process_port=5 by --master_port\n");
  EXPECT_EQ(overrides(asked({{"--standalone", "true"}})), "num_machines=1 by --standalone\n");
}

TEST(LaunchFlags, SetsHowLongMachinesWaitForEachOther) {
  EXPECT_EQ(asked({}).join_timeout.count(), 600);
  EXPECT_EQ(asked({{"--join_timeout", "30"}}).join_timeout.count(), 30);
  const Asked torchruns = asked({{"--rdzv_conf", "join_timeout=45,read_timeout=60"}});
  EXPECT_EQ(torchruns.join_timeout.count(), 45);
  EXPECT_EQ(torchruns.sources.without_effect.size(), 1u);
  EXPECT_EQ(asked({}).last_call.count(), 5);
  EXPECT_EQ(asked({{"--rdzv_conf", "last_call_timeout=0"}}).last_call.count(), 0);
  EXPECT_EQ(problems(asked({{"--rdzv_conf", "last_call_timeout=soon"}})),
            "--rdzv_conf: the time for more machines to join must be 0 to 2592000 seconds; is 'soon'\n");
  EXPECT_EQ(problems(asked({{"--join_timeout", "soon"}})),
            "--join_timeout: the time for all machines to join must be 1 to 2592000 seconds; is 'soon'\n");
}

TEST(LaunchFlags, RefusesTwoValuesOfOneOption) {
  EXPECT_EQ(problems(asked({{"--use_fsdp", "true"}, {"--multi_gpu", "true"}})),
            "--multi_gpu: sets distributed_type to MULTI_GPU, and --use_fsdp sets it to FSDP: give one of them\n");
  EXPECT_EQ(
      problems(asked({{"--num_processes", "2"}, {"--use_fsdp", "true"}, {"--multi_gpu", "false"}, {"--cpu", "yes"}})),
      "");
}

TEST(LaunchFlags, AreHonoredIgnoredOrRefused) {
  EXPECT_EQ(overrides(asked({{"--deepspeed", "x/ds.json"}})),
            "training.deepspeed=" + (std::filesystem::current_path() / "x/ds.json").string() + " by --deepspeed\n");
  EXPECT_EQ(overrides(asked({{"--gradient_clipping", "0.5"}})), "training.max_grad_norm=0.5 by --gradient_clipping\n");
  const Asked idle = asked({{"--tee", "3"}, {"--redirects", "0"}, {"--local_rank", "0"}, {"--use_env", "true"}});
  ASSERT_EQ(idle.sources.without_effect.size(), 2u);
  EXPECT_EQ(idle.sources.without_effect[0].key, "tee");
  EXPECT_EQ(idle.sources.without_effect[1].key, "local_rank");
  EXPECT_EQ(overrides(idle) + problems(idle), "");
  EXPECT_EQ(problems(asked({{"--tpu", "true"}, {"--module", "false"}})),
            "--tpu: is not supported: there is no TPU support\n");
  const Asked secret = asked({{"--aws_secret_access_key", "hidden"}});
  ASSERT_EQ(secret.sources.without_effect.size(), 1u);
  EXPECT_EQ(secret.sources.without_effect[0].value, "…");
  EXPECT_EQ(problems(asked({{"--cpu", "maybe"}})), "--cpu: must be true or false; is 'maybe'\n");
}

}  // namespace
}  // namespace trainer::cli
