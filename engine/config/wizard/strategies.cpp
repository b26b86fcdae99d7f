// Accelerate's questions about DeepSpeed, FSDP and Megatron-LM.
#include "engine/config/wizard/asker.h"

namespace trainer::config {
namespace {

void ask_zero(Asker& ask) {
  const std::string in = "deepspeed_config.";
  WizardDraft& draft = ask.draft();
  ask.option(in + "zero_stage", {.choices = {"0", "1", "2", "3"}});
  const int64_t stage = draft.config.deepspeed_config->zero_stage;
  for (const std::string what : {"optimizer", "param"}) {
    if (stage >= 2) {
      ask.option(in + "offload_" + what + "_device");
    } else {
      draft.erase(in + "offload_" + what + "_device");
    }
  }
  const DeepspeedConfig& deepspeed = *draft.config.deepspeed_config;
  if (deepspeed.offload_param_device == "nvme") ask.option(in + "offload_param_nvme_path", {.fallback = "/nvme"});
  if (deepspeed.offload_optimizer_device == "nvme")
    ask.option(in + "offload_optimizer_nvme_path", {.fallback = "/nvme"});
  ask.option(in + "gradient_accumulation_steps", {.fallback = "1"});
  if (ask.yes("Do you want to use gradient clipping?", draft.has(in + "gradient_clipping"),
              "Scales gradients down whose norm exceeds a limit. no: training.max_grad_norm decides.")) {
    ask.option(in + "gradient_clipping", {.fallback = "1.0"});
  } else {
    draft.erase(in + "gradient_clipping");
  }
  if (stage == 3) ask.option(in + "zero3_save_16bit_model");
}

/// Which layers become units. A missing class is filled in from the model, if that is known. `again`: an older file has
/// FSDP already.
void ask_wrapping(Asker& ask, bool again) {
  const std::string layers = "fsdp_config.fsdp_transformer_layer_cls_to_wrap";
  WizardDraft& draft = ask.draft();
  ask.option("fsdp_config.fsdp_auto_wrap_policy");
  const FsdpConfig& fsdp = draft.config.fsdp_config;
  if (fsdp.auto_wrap_policy == WrapPolicy::kSizeBased) {
    ask.option("fsdp_config.fsdp_min_num_params");
  } else {
    draft.erase("fsdp_config.fsdp_min_num_params");
  }
  if (fsdp.auto_wrap_policy != WrapPolicy::kTransformerBased) {
    draft.erase(layers);
    return;
  }
  const auto model = ask.model();
  const bool models_own = again && fsdp.transformer_layer_cls_to_wrap.empty();
  if (ask.yes("Do you want to use the model's `_no_split_modules` to wrap. Only applicable for 🤗 Transformers",
              models_own,
              "yes: the model's blocks become FSDP's units, such as T5Block or LlamaDecoderLayer.\n"
              "no: you name the classes.")) {
    draft.erase(layers);
    return;
  }
  ask.option(layers, {.fallback = model ? model->block_classes() : ""});
}

/// Accelerate's wizard writes the strategy of FSDP 1 under fsdp_reshard_after_forward, which its launcher never reads.
/// For FSDP 2 Accelerate reads only this key: there it repeats the strategy.
void write_reshard(WizardDraft& draft) {
  const std::string key = "fsdp_config.fsdp_reshard_after_forward";
  const FsdpConfig& fsdp = draft.config.fsdp_config;
  const bool frees = fsdp.sharding_strategy == ShardingStrategy::kFullShard ||
                     fsdp.sharding_strategy == ShardingStrategy::kHybridShard;
  if (fsdp.version == 1) {
    draft.erase(key);
  } else {
    draft.put(key, encode(frees));
  }
}

}  // namespace

void ask_deepspeed(Asker& ask) {
  const std::string in = "deepspeed_config.", file = in + "deepspeed_config_file";
  WizardDraft& draft = ask.draft();
  if (!draft.config.deepspeed_config) draft.config.deepspeed_config.emplace();
  if (ask.yes("Do you want to specify a json file to a DeepSpeed config?", draft.has(file),
              "yes: a ds_config.json sets everything. no: the usual settings are asked for one by one.")) {
    const Node init = draft.value(in + "zero3_init_flag");
    if (!draft.has(file)) draft.erase("deepspeed_config");  // the JSON sets the rest, which must not be set twice
    ask.option(file);
    draft.assign(in + "zero3_init_flag", init);
    draft.erase("mixed_precision");
  } else {
    draft.erase(file);
    ask_zero(ask);
  }
  ask.option(in + "zero3_init_flag");
  if (ask.yes("Do you want to enable Mixture-of-Experts training (MoE)?",
              draft.has(in + "deepspeed_moe_layer_cls_names"),
              "For models with mixture-of-experts layers, which this version does not train.")) {
    ask.option(in + "deepspeed_moe_layer_cls_names");
  } else {
    draft.erase(in + "deepspeed_moe_layer_cls_names");
  }
}

void ask_fsdp(Asker& ask) {
  const std::string in = "fsdp_config.fsdp_";
  WizardDraft& draft = ask.draft();
  const bool again = draft.config.distributed_type == DistributedType::kFsdp;
  ask.option(in + "version", {.fallback = again ? "1" : "2", .choices = {"1", "2"}});
  const bool original = draft.config.fsdp_config.version == 1;
  ask.option(in + "sharding_strategy");
  write_reshard(draft);
  ask.option(in + "offload_params");
  ask_wrapping(ask, again);
  ask.option(in + "backward_prefetch");
  std::vector<std::string> layouts{"FULL_STATE_DICT", "LOCAL_STATE_DICT", "SHARDED_STATE_DICT"};
  if (!original) layouts = {"SHARDED_STATE_DICT", "FULL_STATE_DICT"};
  ask.option(in + "state_dict_type", {.fallback = layouts.front(), .choices = layouts});
  draft.hold(in + "cpu_ram_efficient_loading");
  for (const char* const obsolete : {"forward_prefetch", "use_orig_params", "sync_module_states"}) {
    if (original) draft.hold(in + obsolete);
  }
  ask.option(in + "activation_checkpointing");
}

void ask_megatron(Asker& ask) {
  const std::string in = "megatron_lm_config.megatron_lm_";
  WizardDraft& draft = ask.draft();
  if (!draft.config.megatron_lm_config) draft.config.megatron_lm_config.emplace();
  const MegatronConfig& megatron = *draft.config.megatron_lm_config;
  ask.option(in + "tp_degree");
  if (megatron.tp_degree > 1) ask.option(in + "sequence_parallelism", {.fallback = "yes"});
  ask.option(in + "pp_degree");
  if (megatron.pp_degree > 1) ask.option(in + "num_micro_batches");
  ask.option(in + "recompute_activations", {.fallback = "yes"});
  ask.option(in + "use_distributed_optimizer", {.fallback = "yes"});
  ask.option(in + "gradient_clipping");
}

}  // namespace trainer::config
