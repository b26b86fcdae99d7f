// Accelerate's keys for DeepSpeed; engine/config/translate/deepspeed.cpp translates them.
#include "engine/config/tables.h"

namespace trainer::config {

const Entries& deepspeed_table() {
  using C = DeepspeedConfig;
  auto by_keys = [](const Config& c) { return c.deepspeed_config && c.deepspeed_config->config_file.empty(); };
  auto sharded = [=](const Config& c) { return by_keys(c) && c.deepspeed_config->zero_stage >= 1; };
  auto whole_shards = [=](const Config& c) { return by_keys(c) && c.deepspeed_config->zero_stage == 3; };
  static const Entries entries = table<C>(
      option("deepspeed_config_file", &C::config_file)
          .help(
              "A ds_config.json; a relative path is looked up in the folder of this file, then in the working folder. "
              "Its auto takes the value of a key here.")
          .ask("Please enter the path to the json DeepSpeed config file")
          .env("ACCELERATE_DEEPSPEED_CONFIG_FILE")
          .one_of({"none"}, "a path")
          .path_or_here(),
      option("zero_stage", &C::zero_stage)
          .help("What ranks shard: nothing (0), optimizer state (1), also gradients (2), also parameters (3).")
          .ask("What should be your DeepSpeed's ZeRO optimization stage?")
          .env("ACCELERATE_DEEPSPEED_ZERO_STAGE")
          .at_least(0)
          .at_most(3)
          .when("no deepspeed_config_file is given", by_keys),
      option("offload_optimizer_device", &C::offload_optimizer_device)
          .help("Device that holds the optimizer state; cpu: fsdp_offload_params.")
          .ask("Where to offload optimizer states?")
          .env("ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE")
          .one_of({"none", "cpu", "nvme"})
          .when("zero_stage is 1, 2 or 3", sharded),
      option("offload_param_device", &C::offload_param_device)
          .help("Device that holds the parameters; cpu: fsdp_offload_params.")
          .ask("Where to offload parameters?")
          .env("ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE")
          .one_of({"none", "cpu", "nvme"})
          .when("zero_stage is 3", whole_shards),
      option("offload_optimizer_nvme_path", &C::offload_optimizer_nvme_path)
          .help("Folder on a fast disk.")
          .ask("Nvme Path to offload optimizer states?")
          .no_effect("nothing is offloaded to disk"),
      option("offload_param_nvme_path", &C::offload_param_nvme_path)
          .help("Folder on a fast disk.")
          .ask("Nvme Path to offload parameters?")
          .no_effect("nothing is offloaded to disk"),
      option("gradient_accumulation_steps", &C::gradient_accumulation_steps)
          .help("The same as training.gradient_accumulation_steps.")
          .ask("How many gradient accumulation steps you're passing in your script?")
          .flag("")
          .at_least(1)
          .when("no deepspeed_config_file is given", by_keys),
      option("gradient_clipping", &C::gradient_clipping)
          .help("The same as training.max_grad_norm.")
          .ask("What is the gradient clipping value?")
          .flag("")
          .at_least(0.0)
          .when("no deepspeed_config_file is given", by_keys),
      option("zero3_init_flag", &C::zero3_init_flag)
          .help("Builds the model without holding all of it in memory.")
          .ask("Do you want to enable `deepspeed.zero.Init` when using ZeRO Stage-3 for constructing massive models?")
          .env("ACCELERATE_DEEPSPEED_ZERO3_INIT")
          .harmless({"true", "false"})
          .no_effect("models are always built that way"),
      option("zero3_save_16bit_model", &C::zero3_save_16bit_model)
          .help("Saves consolidated 16-bit weights.")
          .ask("Do you want to save 16-bit model weights when using ZeRO Stage-3?")
          .env("ACCELERATE_DEEPSPEED_ZERO3_SAVE_16BIT_MODEL")
          .when("zero_stage is 3", whole_shards)
          .harmless({"false"})
          .no_effect("the final model is always consolidated, in the dtype of its weights"),
      comma_list("deepspeed_moe_layer_cls_names", &C::moe_layer_cls_names)
          .help("Class names of mixture-of-experts layers.")
          .ask("Specify the comma-separated list of transformers MoE layer class names (case-sensitive), e.g :  "
               "`MixtralSparseMoeBlock`, `Qwen2MoeSparseMoeBlock`, `JetMoEAttention,JetMoEBlock` ... ")
          .env("ACCELERATE_DEEPSPEED_MOE_LAYER_CLS_NAMES")
          .no_effect("mixture-of-experts models are not supported"),
      translated("main_process_port", "The same as main_process_port at the top.").flag("").of<int64_t>(),
      no_effect("gradient_clip", "Accelerate ignores it; the key is gradient_clipping").flag(""),
      option("deepspeed_multinode_launcher", &C::multinode_launcher)
          .help("Launcher for ranks on other machines.")
          .one_of({"pdsh", "standard", "openmpi", "mvapich", "mpich", "nossh", "slurm"})
          .no_effect("`trainer launch` is run on each machine"),
      option("deepspeed_hostfile", &C::hostfile)
          .help("List of machines.")
          .no_effect("`trainer launch` is run on each machine"),
      option("deepspeed_exclusion_filter", &C::exclusion_filter)
          .help("Machines to leave out.")
          .no_effect("`trainer launch` is run on each machine"),
      option("deepspeed_inclusion_filter", &C::inclusion_filter)
          .help("Machines to include.")
          .no_effect("`trainer launch` is run on each machine"));
  return entries;
}

}  // namespace trainer::config
