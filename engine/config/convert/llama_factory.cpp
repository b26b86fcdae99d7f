// LLaMA-Factory's YAML: TrainingArguments with keys of its own. Names and defaults are those of its hparams.
#include "engine/config/convert/source.h"

namespace trainer::config::llama_factory {
namespace {

const std::vector<SameKey> kSame{{"cutoff_len", "data.max_length"},
                                 {"preprocessing_num_workers", "data.preprocessing_num_workers"},
                                 {"default_system", "data.system"},
                                 {"early_stopping_steps", "evaluation.early_stopping_patience"},
                                 {"max_new_tokens", "evaluation.max_new_tokens"},
                                 {"neftune_alpha", "training.neftune_noise_alpha"}};

const std::vector<SameKey> kLora{{"lora_rank", "lora.r"},
                                 {"lora_alpha", "lora.lora_alpha"},
                                 {"lora_dropout", "lora.lora_dropout"},
                                 {"use_rslora", "lora.use_rslora"},
                                 {"use_dora", "lora.use_dora"},
                                 {"loraplus_lr_ratio", "training.loraplus_lr_ratio"}};

Entries moved() {
  return foreign_table(
      translated("model_name_or_path", "The same as model.path."),
      translated("stage", "sft and pt; dpo: the section dpo. The others are refused.")
          .one_of({"pt", "sft", "rm", "ppo", "dpo", "kto"}),
      translated("pref_loss", "With stage dpo: dpo.loss_type; orpo, simpo and kto_pair are refused.")
          .one_of({"sigmoid", "hinge", "ipo", "kto_pair", "orpo", "simpo"}),
      translated("pref_beta", "With stage dpo: dpo.beta.").of<double>(),
      translated("dpo_label_smoothing", "With stage dpo: dpo.label_smoothing.").of<double>(),
      translated("pref_ftx", "With stage dpo: dpo.rpo_alpha.").of<double>(),
      translated("finetuning_type", "lora: the section lora; full; others are refused.")
          .one_of({"lora", "full", "freeze", "oft"}),
      translated("adapter_name_or_path", "The same as lora.path."),
      translated("lora_target", "all: lora.target_modules: all-linear; otherwise its names."),
      translated("additional_target", "The same as lora.modules_to_save."),
      translated("pissa_init", "true: lora.init_lora_weights: pissa_niter_N, N being pissa_iter.").of<bool>(),
      translated("pissa_iter", "The number in pissa_niter_N; -1: pissa.").of<int64_t>(),
      translated("quantization_bit", "4: model.quantization_config.").of<int64_t>(),
      translated("quantization_type", "The same as bnb_4bit_quant_type.").one_of({"nf4", "fp4"}),
      translated("double_quantization", "The same as bnb_4bit_use_double_quant; left out: true.").of<bool>(),
      translated("dataset", "data.train.path and data.dialogue, as dataset_dir/dataset_info.json says."),
      translated("eval_dataset", "data.validation.path, as dataset_info.json says."),
      translated("dataset_dir", "The folder of dataset_info.json; left out: data."),
      translated("max_samples", "data.max_samples, for a single dataset.").of<int64_t>(),
      translated("template", "data.chat_template for llama2, llama3, mistral, alpaca and chatml; empty: none."),
      translated("val_size", "Below 1: data.validation.fraction.").of<double>(),
      translated("train_on_prompt", "true: data.learn: all.").of<bool>(),
      translated("mask_history", "true: data.learn: last_turn.").of<bool>(),
      translated("packing", "With stage pt (where it is the default): data.group_texts.").of<bool>(),
      translated("disable_shuffling", "true: data.shuffle: false.").of<bool>(),
      translated("disable_gradient_checkpointing", "true: training.gradient_checkpointing: false; left out: true.")
          .of<bool>());
}

Entries refused() {
  const char* const adapters = "train a LoRA instead, or every weight";
  const char* const optimizer = "it is an optimizer that isn't here; training.optim lists those that are";
  const char* const loss = "the loss is the cross-entropy of the learned tokens";
  return foreign_table(
      unsupported("use_galore", optimizer).of<bool>(), unsupported("use_apollo", optimizer).of<bool>(),
      unsupported("use_badam", optimizer).of<bool>(), unsupported("use_adam_mini", optimizer).of<bool>(),
      unsupported("use_dft_loss", loss).of<bool>(), unsupported("use_asft_loss", loss).of<bool>(),
      unsupported("use_eaft_loss", loss).of<bool>(), unsupported("use_llama_pro", adapters).of<bool>(),
      unsupported("mixture_of_depths", "models are trained as they are"),
      unsupported("use_kt", "experts are trained where the other layers are").of<bool>(),
      unsupported("export_dir", "this file exports a model; use trainer merge or trainer export"),
      unsupported("train_from_scratch", "write model.config with the keys of a config.json").of<bool>());
}

Entries idle() {
  const char* const kernels = "every layer has its own kernels";
  const char* const text = "models read text only";
  const char* const infer = "it is for inference; use trainer generate";
  const char* const cache = "the token cache is found again by the files' content";
  const char* const part = "it belongs to a method that isn't chosen";
  const char* const tokens = "change the tokenizer's files, whose tokens are used as they are";
  const char* const trackers = "logging.report_to can be tensorboard or mlflow";
  const char* const packed =
      "samples are never padded, and an update has its number of samples whatever their length; raise "
      "training.global_batch_size for more tokens in an update";
  Entries all = foreign_table(
      no_effect("neat_packing", packed), no_effect("trust_remote_code", "no Python code runs"),
      no_effect("plot_loss", "trainer report draws the curves"), no_effect("overwrite_cache", cache),
      no_effect("tokenized_path", cache), no_effect("cache_dir", "models are found in the Hub's cache (HF_HUB_CACHE)"),
      no_effect("flash_attn", kernels).harmless({"auto", "disabled", "sdpa"}),
      no_effect("enable_liger_kernel", kernels), no_effect("use_unsloth", kernels),
      no_effect("use_unsloth_gc", kernels), no_effect("use_v1_kernels", kernels),
      no_effect("shift_attn", "attention reaches all tokens of a sample"),
      no_effect("use_muon", "write training.optim: muon if `trainer check` has it"),
      no_effect("pure_bf16", "trained weights are stored in fp32; mixed_precision: bf16 computes in bf16"),
      no_effect("use_reentrant_gc", "there is one way of recomputing, which works for all models").harmless({"true"}),
      no_effect("upcast_layernorm", "norms are computed in fp32").harmless({"true"}),
      no_effect("rope_scaling", "write rope_scaling in the model's config.json"), no_effect("resize_vocab", tokens),
      no_effect("add_tokens", tokens), no_effect("add_special_tokens", tokens),
      no_effect("new_special_tokens_config", tokens), no_effect("init_special_tokens", tokens),
      no_effect("split_special_tokens", tokens),
      no_effect("use_fast_tokenizer", "tokenizers are native").harmless({"true"}),
      no_effect("model_revision", "the newest snapshot in the Hub's cache is read").harmless({"main"}),
      no_effect("low_cpu_mem_usage", "weights are always read in place").harmless({"true"}),
      no_effect("quantization_method", "bitsandbytes' formats are the only ones").harmless({"bnb", "bitsandbytes"}),
      no_effect("quantization_device_map", "ranks hold the model"),
      no_effect("streaming", "files are read as they are"),
      no_effect("mix_strategy", "write data.train.weights").harmless({"concat"}),
      no_effect("interleave_probs", "write data.train.weights"),
      no_effect("enable_thinking", "the chat template decides").harmless({"true"}),
      no_effect("create_new_adapter", "merge the adapters in adapter_name_or_path first (trainer merge)"),
      no_effect("pissa_convert", "the adapter is always saved so that it fits the unchanged weights")
          .harmless({"true"}),
      no_effect("compute_accuracy", "write evaluation.metrics: [loss, accuracy]"), no_effect("infer_backend", infer),
      no_effect("infer_dtype", infer), no_effect("use_kv_cache", infer), no_effect("use_swanlab", trackers),
      no_effect("swanlab_project", trackers), no_effect("ray_num_workers", "num_processes"));
  for (const char* const key :
       {"image_max_pixels", "image_min_pixels", "video_max_pixels", "video_min_pixels", "video_fps", "video_maxlen",
        "media_dir", "freeze_vision_tower", "freeze_multi_modal_projector", "freeze_language_model"})
    all.push_back(no_effect(key, text).entry);
  for (const char* const key : {"ref_model", "ref_model_adapters", "ref_model_quantization_bit"})
    all.push_back(no_effect(key, "the reference of preferences is the model that the run starts from").entry);
  for (const char* const key : {"oft_block_size", "oft_rank", "oft_target", "freeze_trainable_layers",
                                "freeze_trainable_modules", "freeze_extra_modules"})
    all.push_back(no_effect(key, part).entry);
  return all;
}

void convert_adapter(Source& source) {
  const std::string type = source.word("finetuning_type");
  if (type == "oft" || type == "freeze") source.refuse("finetuning_type", "lora and full are");
  if (!type.empty() && type != "lora") {
    for (const auto& [key, _] : kLora)
      if (source.asks(key)) source.not_honored(key, "finetuning_type is " + type);
    return;
  }
  source.assume("finetuning_type", "lora.peft_type", "LORA");
  source.set_all(kLora);
  source.assume("lora_rank", "lora.r", "8");
  const int64_t rank = parse_int(source.word("lora_rank")).value_or(8);
  source.assume("lora_alpha", "lora.lora_alpha", std::to_string(2 * rank));
  source.assume("lora_target", "lora.target_modules", "all-linear");
  const GivenKey target = source.key("lora_target"), extra = source.key("additional_target");
  if (source.word("lora_target") == "all")
    source.set(target, "lora.target_modules", Node::scalar("all-linear"));
  else if (target.value.is_scalar())
    source.set(target, "lora.target_modules", Node::list(split(target.value.text, ',')));
  if (source.asks("additional_target"))
    source.set(extra, "lora.modules_to_save", Node::list(split(extra.value.text, ',')));
  if (source.is_true("pissa_init")) {
    const int64_t steps = parse_int(source.word("pissa_iter")).value_or(16);
    source.set("pissa_init", "lora.init_lora_weights", steps < 0 ? "pissa" : fmt::format("pissa_niter_{}", steps));
  }
  const GivenKey folder = source.key("adapter_name_or_path");
  const auto folders = split(folder.value.text, ',');
  if (folders.size() > 1)
    source.not_honored(folder, "lora.path is one adapter; merge the others into the model first (trainer merge)");
  else if (folders.size() == 1)
    source.set(folder, "lora.path", Node::scalar(source.path(folders.front()), true));
}

void convert_preferences(Source& source, bool learns_pairs) {
  const std::string loss = source.word("pref_loss");
  if (!learns_pairs) {
    for (const char* const key : {"pref_loss", "pref_beta", "dpo_label_smoothing", "pref_ftx"})
      if (source.asks(key)) source.not_honored(key, "stage is not dpo");
    return;
  }
  if (loss == "orpo" || loss == "simpo" || loss == "kto_pair")
    source.refuse("pref_loss", "sigmoid, hinge and ipo are; write one of them");
  else
    source.set("pref_loss", "dpo.loss_type");
  source.assume("pref_loss", "dpo.loss_type", "sigmoid");
  source.set("pref_beta", "dpo.beta");
  source.set("dpo_label_smoothing", "dpo.label_smoothing");
  source.set("pref_ftx", "dpo.rpo_alpha");
}

void convert_model(Source& source) {
  const GivenKey model = source.key("model_name_or_path");
  if (model.value.is_scalar()) source.set(model, "model.path", Node::scalar(source.path(model.value.text), true));
  const GivenKey bits = source.key("quantization_bit");
  if (!source.asks("quantization_bit")) return;
  if (parse_int(bits.value.text) != 4)
    return source.not_honored(bits, "write model.quantization_config: {load_in_4bit: true}, or model.dtype: bfloat16");
  const std::string config = "model.quantization_config.";
  source.set("quantization_bit", config + "load_in_4bit", "true");
  source.set("quantization_type", config + "bnb_4bit_quant_type");
  source.assume("quantization_type", config + "bnb_4bit_quant_type", "nf4");
  source.set("double_quantization", config + "bnb_4bit_use_double_quant");
  source.assume("double_quantization", config + "bnb_4bit_use_double_quant", "true");
}

}  // namespace

const Entries& table() {
  static const Entries entries = joined({same_keys(kSame), same_keys(kLora), moved(), refused(), idle()});
  return entries;
}

void convert(Source& source) {
  const std::string stage = source.word("stage");
  if (stage == "kto" || stage == "ppo" || stage == "rm")
    source.refuse("stage", "of preferences, only pairs are learned: stage dpo; there are no rewards");
  convert_preferences(source, stage == "dpo");
  source.set_all(kSame);
  convert_model(source);
  convert_adapter(source);
  if (source.is_true("disable_gradient_checkpointing"))
    source.set("disable_gradient_checkpointing", "training.gradient_checkpointing", "false");
  else if (!source.document().find("gradient_checkpointing"))
    source.assume("disable_gradient_checkpointing", "training.gradient_checkpointing", "true");
  convert_data(source);
}

}  // namespace trainer::config::llama_factory
