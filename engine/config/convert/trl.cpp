// TRL's YAML, as `trl sft --config` and `trl dpo --config` read it. Keys and defaults are those of TRL 1.16's
// ScriptArguments, DatasetMixtureConfig, ModelConfig, SFTConfig and DPOConfig; keys of older versions are known too.
#include <algorithm>

#include "engine/config/convert/source.h"

namespace trainer::config::trl {
namespace {

Entries moved() {
  return foreign_table(
      translated("model_name_or_path", "The same as model.path."),
      translated("dtype", "With use_peft: the same as model.dtype, with TRL's default float32.")
          .alias("torch_dtype")
          .one_of({"auto", "bfloat16", "float16", "float32"}),
      translated("use_peft", "true: the section lora, with TRL's defaults r 16, lora_alpha 32 and lora_dropout 0.05.")
          .of<bool>(),
      translated("lora_r", "The same as lora.r."), translated("lora_alpha", "The same as lora.lora_alpha."),
      translated("lora_dropout", "The same as lora.lora_dropout."),
      translated("lora_target_modules", "The same as lora.target_modules."),
      translated("lora_modules_to_save", "The same as lora.modules_to_save."),
      translated("lora_task_type", "The same as lora.task_type."),
      translated("use_rslora", "The same as lora.use_rslora."), translated("use_dora", "The same as lora.use_dora."),
      translated("load_in_4bit", "true: model.quantization_config.").of<bool>(),
      translated("bnb_4bit_quant_type", "The same as in model.quantization_config; left out: nf4.")
          .one_of({"fp4", "nf4"}),
      translated("use_bnb_nested_quant", "The same as bnb_4bit_use_double_quant.").of<bool>(),
      translated("dataset_name", "The same as data.train.path."),
      translated("dataset_test_split", "validation, if eval_strategy asks for evaluation: data.validation.path."),
      translated("datasets", "data.train.path, of each `path` or `data_files`."),
      translated("test_split_size", "Below 1: data.validation.fraction.").of<double>(),
      translated("dataset_num_proc", "The same as data.preprocessing_num_workers."),
      translated("chat_template",
                 "A template, as the alignment-handbook's files have it: data.chat_template, with "
                 "data.dialogue: messages."),
      translated("num_processes", "Above 1: num_processes, with distributed_type: MULTI_GPU.").of<int64_t>(),
      translated("max_length", "The same as data.max_length; left out: 1024.").alias("max_seq_length"));
}

Entries idle() {
  const char* const files = "data.train.path stands for the training split; give the files of another one";
  const char* const kernels = "every layer has its own kernels";
  const char* const read = "files are read as they are";
  const char* const mixture = "it is the alignment-handbook's: write data.train.path, and data.train.weights";
  return foreign_table(
      no_effect("model_revision", "model.path stands for the newest snapshot in the Hub's cache; name its folder")
          .harmless({"main"}),
      no_effect("attn_implementation", kernels).harmless({"sdpa"}), no_effect("use_flash_attention_2", kernels),
      no_effect("lora_target_parameters", "adapters are for layers: lora.target_modules"),
      no_effect("load_in_8bit", "write model.quantization_config: {load_in_4bit: true}, or model.dtype: bfloat16"),
      no_effect("bnb_4bit_quant_storage", "blocks are stored as bytes").harmless({"uint8"}),
      no_effect("dataset_config", "give the files of this configuration in data.train.path"),
      no_effect("dataset_train_split", files).harmless({"train"}), no_effect("dataset_streaming", read),
      no_effect("streaming", read), no_effect("ignore_bias_buffers", "no buffer is exchanged"),
      no_effect("dataset_batch_size", read),
      no_effect("truncation_mode", "a text that is too long loses its end; data.on_too_long can drop it")
          .harmless({"keep_start"}),
      no_effect("gradient_checkpointing_use_reentrant", "there is one way of recomputing, which works for all models"),
      no_effect("accelerate_config",
                "give Accelerate's file to `trainer launch` too, and remove distributed_type and num_processes here"),
      no_effect("dataset_mixture", mixture), no_effect("dataset_mixer", mixture), no_effect("dataset_splits", mixture),
      no_effect("hub_model_revision", "nothing is uploaded; upload output_dir yourself"),
      no_effect("env", "set environment variables where trainer launch runs"));
}

/// `trl` starts `accelerate launch`, whose strategy for several processes is DDP.
void convert_ranks(Source& source) {
  const auto asked = [&](const char* key) {
    const Node* const given = source.document().find(key);
    return given && !asks_nothing(*given, {});
  };
  if (parse_int(source.word("num_processes")).value_or(1) <= 1) return;
  source.set("num_processes", "num_processes");
  if (!asked("deepspeed") && !asked("fsdp"))
    source.set("num_processes", "distributed_type", asked("use_cpu") ? "MULTI_CPU" : "MULTI_GPU");
}

}  // namespace

const Entries& common_table() {
  static const Entries entries = joined({moved(), idle()});
  return entries;
}

Entries with_foreign_keys(const Entries& known, const Entries& section) {
  Entries all = known;
  for (const Entry& entry : section) {
    const bool handled = std::any_of(known.begin(), known.end(), [&](const Entry& e) { return e.has_key(entry.name); });
    if (entry.foreign != Foreign::kNot && !handled) all.push_back(entry);
  }
  return all;
}

void convert_common(Source& source, const char* learning_rate) {
  convert_model(source);
  convert_data(source);
  convert_ranks(source);
  source.assume_argument("learning_rate", "training.learning_rate", learning_rate);
  source.assume_argument("gradient_checkpointing", "training.gradient_checkpointing", "true");
  source.assume_argument("logging_steps", "logging.logging_steps", "10");
  const Node* const fp16 = source.document().find("fp16");
  if (!fp16 || parse_bool(fp16->text) != true) source.assume_argument("bf16", "mixed_precision", "bf16");
}

}  // namespace trainer::config::trl
