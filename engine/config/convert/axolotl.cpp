// axolotl's YAML. Names and defaults are those of axolotl 0.17's schemas (src/axolotl/utils/schemas).
#include "engine/config/convert/source.h"

namespace trainer::config::axolotl {
namespace {

const std::vector<SameKey> kSame{{"micro_batch_size", "training.per_device_train_batch_size"},
                                 {"eval_batch_size", "training.per_device_eval_batch_size"},
                                 {"num_epochs", "training.num_train_epochs"},
                                 {"optimizer", "training.optim"},
                                 {"lr_scheduler", "training.lr_scheduler_type"},
                                 {"adam_eps", "training.adam_epsilon"},
                                 {"tensor_parallel_size", "parallelism_config.parallelism_config_tp_size"},
                                 {"context_parallel_size", "parallelism_config.parallelism_config_cp_size"},
                                 {"dp_shard_size", "parallelism_config.parallelism_config_dp_shard_size"},
                                 {"dp_replicate_size", "parallelism_config.parallelism_config_dp_replicate_size"},
                                 {"dataset_exact_deduplication", "data.train.deduplicate"},
                                 {"dataset_processes", "data.preprocessing_num_workers"},
                                 {"default_system_message", "data.system"},
                                 {"noisy_embedding_alpha", "training.neftune_noise_alpha"},
                                 {"rl_beta", "dpo.beta"},
                                 {"dpo_label_smoothing", "dpo.label_smoothing"},
                                 {"rpo_alpha", "dpo.rpo_alpha"},
                                 {"sequence_len", "data.max_length"}};

const std::vector<SameKey> kLora{{"lora_r", "lora.r"},
                                 {"lora_alpha", "lora.lora_alpha"},
                                 {"lora_dropout", "lora.lora_dropout"},
                                 {"lora_target_modules", "lora.target_modules"},
                                 {"lora_exclude_modules", "lora.exclude_modules"},
                                 {"lora_modules_to_save", "lora.modules_to_save"},
                                 {"peft_layers_to_transform", "lora.layers_to_transform"},
                                 {"peft_use_rslora", "lora.use_rslora"},
                                 {"peft_use_dora", "lora.use_dora"},
                                 {"peft_init_lora_weights", "lora.init_lora_weights"},
                                 {"loraplus_lr_ratio", "training.loraplus_lr_ratio"}};

constexpr const char* kTargets = "lora.target_modules";

Entries moved() {
  return foreign_table(
      translated("base_model", "The same as model.path."),
      translated("tokenizer_config", "The same as tokenizer.path."),
      translated("adapter", "lora or qlora: the section lora."), translated("lora_model_dir", "The same as lora.path."),
      translated("lora_target_linear", "true: lora.target_modules: all-linear.").of<bool>(),
      translated("load_in_4bit", "true: model.quantization_config with nf4 and double quantization.").of<bool>(),
      translated("bnb_config_kwargs", "The keys of model.quantization_config."),
      translated("rl", "dpo: the section dpo; ipo: with dpo.loss_type: ipo; others are refused."),
      translated("dpo_norm_loss", "true: dpo.loss_type: sigmoid_norm.").of<bool>(),
      translated("dpo_loss_type", "A list of one: dpo.loss_type."),
      translated("datasets", "data.train.path, and data.dialogue or data.source by `type`."),
      translated("pretraining_dataset", "data.train.path with data.group_texts."),
      translated("test_datasets", "data.validation.path."),
      translated("val_set_size", "Below 1: data.validation.fraction.").of<double>(),
      translated("chat_template", "data.chat_template; tokenizer_default: the tokenizer's own."),
      translated("chat_template_jinja", "data.chat_template, if chat_template is jinja."),
      translated("train_on_inputs", "true: data.learn: all.").of<bool>(),
      translated("excess_length_strategy", "data.on_too_long; left out: drop.").one_of({"drop", "truncate", "raise"}),
      translated("batch_size", "Divided by micro_batch_size, if gradient_accumulation_steps is left out.")
          .of<int64_t>(),
      translated("bf16", "true or auto: mixed_precision: bf16.").one_of({"true", "false", "auto", "full"}),
      translated("fp16", "true: mixed_precision: fp16.").of<bool>(),
      translated("gradient_checkpointing", "offload: with training.activation_offloading."),
      translated("activation_offloading", "true: training.activation_offloading."),
      translated("cosine_min_lr_ratio", "Above 0, with cosine: cosine_with_min_lr.").of<double>(),
      translated("evals_per_epoch", "1: evaluation.eval_steps: 0, the end of each epoch.").of<double>(),
      translated("saves_per_epoch", "1: checkpoint.save_strategy: epoch.").of<double>(),
      translated("fsdp_version", "The same as fsdp_config.fsdp_version."),
      translated("fsdp_config", "The same keys, with or without fsdp_; also without `fsdp`."),
      translated("use_tensorboard", "true: logging.report_to: [tensorboard].").of<bool>(),
      translated("use_mlflow", "true: logging.report_to: [mlflow].").of<bool>());
}

Entries refused() {
  const char* const objective = "of preferences, only pairs are learned (rl: dpo or ipo); there are no rewards";
  const char* const adapters = "train a LoRA instead, or every weight";
  return foreign_table(
      unsupported("reward_model", objective).of<bool>(), unsupported("dpo_use_weighting", objective).of<bool>(),
      unsupported("dpo_loss_weights", "write one dpo.loss_type, and the weight of sft as dpo.rpo_alpha"),
      unsupported("process_reward_model", objective).of<bool>(),
      unsupported("diffusion", "no diffusion model is supported"), unsupported("relora", adapters),
      unsupported("qat", "there is no training of quantized weights; " + std::string(adapters)),
      unsupported("gptq", "of quantized weights, only load_in_4bit can be trained on").of<bool>(),
      unsupported("unfrozen_parameters", "a part of the weights can't be chosen; " + std::string(adapters)),
      unsupported("lisa_n_layers", adapters), unsupported("llmcompressor", adapters));
}

Entries idle() {
  const char* const packed =
      "samples are never padded, and an update has its number of samples whatever their length; "
      "raise training.global_batch_size for more tokens in an update";
  const char* const kernels = "every layer has its own kernels";
  const char* const python = "no Python code runs";
  const char* const tokens = "change the tokenizer's files, whose tokens are used as they are";
  const char* const trackers = "logging.report_to can be tensorboard or mlflow";
  const char* const roles = "set the turns that are learned with data.learn";
  const char* const cache = "the token cache is in data.cache_dir";
  const char* const gptq = "weights that GPTQ quantized aren't read";
  const char* const quantized = "write model.quantization_config: {load_in_4bit: true}, or model.dtype: bfloat16";
  const char* const experts = "mixtures of experts are computed in one way";
  Entries all = foreign_table(
      no_effect("precompute_ref_log_probs", "they are always computed once, before the first update")
          .harmless({"true"}),
      no_effect("dpo_use_logits_to_keep", kernels), no_effect("dpo_padding_free", packed),
      no_effect("dpo_use_liger_kernel", kernels), no_effect("rl_adapter_ref_model", "the reference is the start model"),
      no_effect("sample_packing", packed), no_effect("eval_sample_packing", packed),
      no_effect("pad_to_sequence_len", packed), no_effect("sample_packing_sequentially", packed),
      no_effect("max_packed_sequence_len", packed), no_effect("load_in_8bit", quantized),
      no_effect("quantize_moe_experts", "quantization_config covers the linear layers"),
      no_effect("attn_implementation", kernels), no_effect("flash_attention", kernels),
      no_effect("sdp_attention", kernels), no_effect("xformers_attention", kernels),
      no_effect("eager_attention", kernels), no_effect("flex_attention", kernels),
      no_effect("flash_attn_cross_entropy", kernels), no_effect("flash_attn_fuse_mlp", kernels),
      no_effect("flash_attn_rms_norm", kernels), no_effect("cut_cross_entropy", kernels),
      no_effect("tiled_mlp", kernels), no_effect("liger_rope", kernels), no_effect("liger_rms_norm", kernels),
      no_effect("liger_layer_norm", kernels), no_effect("liger_glu_activation", kernels),
      no_effect("liger_fused_linear_cross_entropy", kernels), no_effect("lora_mlp_kernel", kernels),
      no_effect("lora_qkv_kernel", kernels), no_effect("lora_o_kernel", kernels), no_effect("use_kernels", kernels),
      no_effect("liger_rms_norm_gated", kernels), no_effect("fused_attn_kernel", kernels),
      no_effect("flex_attn_compile_kwargs", kernels), no_effect("use_scattermoe", experts),
      no_effect("use_sonicmoe", experts), no_effect("expert_parallel_size", experts),
      no_effect("llama4_linearized_experts", experts), no_effect("gptq_groupsize", gptq),
      no_effect("gptq_model_v1", gptq), no_effect("model_quantization_config", quantized),
      no_effect("model_quantization_config_kwargs", quantized), no_effect("torchdistx_path", python),
      no_effect("tokenizer_use_mistral_common", "tokenizers are native"),
      no_effect("resize_token_embeddings_to_32x", tokens), no_effect("push_dataset_to_hub", "nothing is uploaded"),
      no_effect("experimental_skip_move_to_device", "ranks hold the model"),
      no_effect("experts_implementation", experts), no_effect("plugins", python),
      no_effect("trust_remote_code", python), no_effect("strict", "unknown keys are errors"),
      no_effect("model_type", "the model's config.json decides").harmless({"AutoModelForCausalLM"}),
      no_effect("tokenizer_type", "the tokenizer's files decide").harmless({"AutoTokenizer"}),
      no_effect("processor_type", "models read text only"), no_effect("is_llama_derived_model", "config.json decides"),
      no_effect("revision_of_model", "model.path stands for the newest snapshot in the Hub's cache; name its folder"),
      no_effect("special_tokens", tokens), no_effect("tokens", tokens), no_effect("eot_tokens", tokens),
      no_effect("roles_to_train", roles), no_effect("train_on_eos", roles), no_effect("skip_prepare_dataset", cache),
      no_effect("dataset_prepared_path", cache),
      no_effect("shuffle_merged_datasets", "data.shuffle shuffles every epoch").harmless({"true"}),
      no_effect("lora_fan_in_fan_out", "the model's layers determine how weights are stored"),
      no_effect("lora_target_parameters", "adapters are for layers: lora.target_modules"),
      no_effect("lora_on_cpu", "adapters are on the device of their layer"),
      no_effect("loss_watchdog_threshold", "training.loss_spike_deviations and training.on_divergence watch the loss"),
      no_effect("loss_watchdog_patience", "training.on_divergence acts at once"),
      no_effect("eta_min", "with cosine_with_min_lr, write training.lr_scheduler_kwargs: {min_lr: …}"),
      no_effect("cosine_constant_lr_ratio", "write warmup_stable_decay and its lr_scheduler_kwargs"),
      no_effect("auto_resume_from_checkpoints", "checkpoint.resume_from_checkpoint is auto").harmless({"true"}),
      no_effect("hf_use_auth_token", "nothing is downloaded"),
      no_effect("eval_max_new_tokens", "write evaluation: {generate: true, max_new_tokens: …}"),
      no_effect("model_config", "change the model's config.json"),
      no_effect("low_cpu_mem_usage", "weights are always read in place"),
      no_effect("device_map", "ranks hold the model"));
  for (const char* const key : {"use_wandb", "wandb_project", "wandb_entity", "wandb_watch", "wandb_name",
                                "wandb_run_id", "wandb_log_model", "use_comet", "comet_project_name", "use_swanlab",
                                "swanlab_project", "use_trackio", "trackio_project_name", "trackio_run_name"})
    all.push_back(no_effect(key, trackers).entry);
  return all;
}

void convert_model(Source& source) {
  for (const auto& [name, to] :
       {std::pair("base_model", "model.path"), std::pair("tokenizer_config", "tokenizer.path")}) {
    const GivenKey given = source.key(name);
    if (given.value.is_scalar()) source.set(given, to, Node::scalar(source.path(given.value.text), true));
  }
  if (source.is_true("load_in_4bit")) {
    const std::string config = "model.quantization_config.";
    source.set("load_in_4bit", config + "load_in_4bit", "true");
    source.set("load_in_4bit", config + "bnb_4bit_quant_type", "nf4");
    const GivenKey more = source.key("bnb_config_kwargs");
    if (!more.value.find("bnb_4bit_use_double_quant"))
      source.set("load_in_4bit", config + "bnb_4bit_use_double_quant", "true");
    for (const Member& member : more.value.members)
      source.set({more.key + "." + member.key, member.value, member.mark}, config + member.key, member.value);
  }
}

void convert_adapter(Source& source) {
  const std::string kind = source.word("adapter");
  const char* const none = "adapter is not given, so every weight is trained";
  if (!source.asks("adapter")) {
    for (const auto& [key, _] : kLora)
      if (source.asks(key)) source.not_honored(key, none);
    for (const char* const key : {"lora_model_dir", "lora_target_linear"})
      if (source.asks(key)) source.not_honored(key, none);
    return;
  }
  if (kind != "lora" && kind != "qlora") {
    source.refuse("adapter", "lora and qlora are; write one of them, or leave it out to train every weight");
    return;
  }
  const bool linear = source.is_true("lora_target_linear");
  for (const SameKey& same : kLora)
    if (!linear || std::string(same.to) != kTargets) source.set(same.key, same.to);
  source.assume("lora_r", "lora.r", "8");
  if (linear) source.set("lora_target_linear", kTargets, "all-linear");
  if (linear && source.asks("lora_target_modules"))
    source.not_honored("lora_target_modules", "lora_target_linear already means all linear layers");
  const GivenKey folder = source.key("lora_model_dir");
  if (source.asks("lora_model_dir"))
    source.set(folder, "lora.path", Node::scalar(source.path(folder.value.text), true));
}

void convert_preferences(Source& source) {
  const std::string rl = source.word("rl");
  if (!source.asks("rl")) {
    for (const char* const key : {"rl_beta", "dpo_label_smoothing", "rpo_alpha", "dpo_norm_loss", "dpo_loss_type"})
      if (source.asks(key)) source.not_honored(key, "rl is not given");
    return;
  }
  if (rl != "dpo" && rl != "ipo")
    return source.refuse("rl", "of preferences, only pairs are learned (dpo and ipo); there are no rewards");
  const GivenKey losses = source.key("dpo_loss_type");
  if (losses.value.is_list() && losses.value.items.size() == 1)
    source.set(losses, "dpo.loss_type", losses.value.items.front());
  else if (source.asks("dpo_loss_type"))
    source.not_honored(losses, "write one dpo.loss_type");
  else
    source.set("rl", "dpo.loss_type",
               rl == "ipo"                       ? "ipo"
               : source.is_true("dpo_norm_loss") ? "sigmoid_norm"
                                                 : "sigmoid");
  source.set("rl_beta", "dpo.beta");
  source.set("dpo_label_smoothing", "dpo.label_smoothing");
  source.set("rpo_alpha", "dpo.rpo_alpha");
}

void convert_precision(Source& source) {
  const std::string bf16 = source.word("bf16");
  if (bf16 == "full")
    source.not_honored("bf16", "trained weights are stored in fp32; mixed_precision: bf16 computes in bf16");
  else if (bf16 == "auto" || source.is_true("bf16"))
    source.set("bf16", "mixed_precision", "bf16");
  if (source.is_true("fp16")) source.set("fp16", "mixed_precision", "fp16");
  const bool offloads = source.word("gradient_checkpointing").starts_with("offload");
  const GivenKey checkpointing = source.key("gradient_checkpointing");
  if (offloads) {
    source.set("gradient_checkpointing", "training.gradient_checkpointing", "true");
    source.set("gradient_checkpointing", "training.activation_offloading", "true");
  } else {
    source.set("gradient_checkpointing", "training.gradient_checkpointing");
  }
  if (source.is_true("activation_offloading"))
    source.set("activation_offloading", "training.activation_offloading", "true");
  else if (source.asks("activation_offloading"))
    source.not_honored("activation_offloading", "training.activation_offloading can be true or false");
}

void convert_schedule(Source& source) {
  source.assume("micro_batch_size", "training.per_device_train_batch_size", "1");
  source.assume("num_epochs", "training.num_train_epochs", "1");
  if (source.asks("cosine_min_lr_ratio") && source.word("lr_scheduler") == "cosine") {
    const GivenKey ratio = source.key("cosine_min_lr_ratio");
    source.set("lr_scheduler", "training.lr_scheduler_type", "cosine_with_min_lr");
    source.set(ratio, "training.lr_scheduler_kwargs.min_lr_rate", ratio.value);
  } else {
    source.set("lr_scheduler", "training.lr_scheduler_type");
    source.assume("lr_scheduler", "training.lr_scheduler_type", "cosine");
    if (source.asks("cosine_min_lr_ratio")) source.not_honored("cosine_min_lr_ratio", "lr_scheduler is not cosine");
  }
  const auto batch = parse_int(source.word("batch_size"));
  const int64_t micro = parse_int(source.word("micro_batch_size")).value_or(1);
  if (batch && micro > 0 && !source.document().find("gradient_accumulation_steps"))
    source.set("batch_size", "training.gradient_accumulation_steps", std::to_string(*batch / micro));
  else if (source.asks("batch_size"))
    source.not_honored("batch_size", "gradient_accumulation_steps is given too");
  for (const char* const key : {"evals_per_epoch", "saves_per_epoch"}) {
    const bool saves = key[0] == 's';
    const auto times = parse_double(source.word(key));
    if (times == 1.0)
      source.set(key, saves ? "checkpoint.save_strategy" : "evaluation.eval_steps", saves ? "epoch" : "0");
    else if (source.asks(key))
      source.not_honored(key, saves ? "write checkpoint.save_steps, a number of updates, or save_strategy: epoch"
                                    : "write evaluation.eval_steps, a number of updates; 0: the end of each epoch");
  }
}

void convert_fsdp(Source& source) {
  const GivenKey config = source.key("fsdp_config"), version = source.key("fsdp_version");
  Node keys = config.value;
  if (!source.asks("fsdp_config") && !source.asks("fsdp_version")) return;
  if (keys.is_null()) {
    keys = Node::map();
    keys.mark = version.mark;
  }
  if (source.asks("fsdp_version") && keys.is_map() && !keys.find("fsdp_version")) keys["fsdp_version"] = version.value;
  const Node* const words = source.document().find("fsdp");
  if (!words || words->is_null()) {
    Node on = Node::scalar("true");
    on.mark = keys.mark;
    source.pass("fsdp", on);
  }
  source.pass("fsdp_config", keys);
}

}  // namespace

const Entries& table() {
  static const Entries entries = joined({same_keys(kSame), same_keys(kLora), moved(), refused(), idle()});
  return entries;
}

void convert(Source& source) {
  for (const SameKey& same : kSame)
    if (std::string(same.key) != "lr_scheduler" && !std::string(same.to).starts_with("dpo."))
      source.set(same.key, same.to);
  convert_preferences(source);
  convert_model(source);
  convert_adapter(source);
  convert_precision(source);
  convert_schedule(source);
  convert_fsdp(source);
  if (source.is_true("use_tensorboard")) source.set("use_tensorboard", "logging.report_to", "tensorboard");
  if (source.is_true("use_mlflow")) source.set("use_mlflow", "logging.report_to", "mlflow");
  convert_data(source);
}

}  // namespace trainer::config::axolotl
