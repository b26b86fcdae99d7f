// Keys of TRL's SFTConfig and DPOConfig that are not options here: people paste them beside TrainingArguments' keys,
// under `training` or `data`, or with DPO's under `dpo`. TRL's defaults are always accepted.
#include "engine/config/tables.h"

namespace trainer::config {

const Entries& trl_keys() {
  const char* const padded = "samples are never padded";
  static const Entries entries = foreign_table(
      no_effect("padding_free", padded).of<bool>().harmless({"true", "false"}),
      no_effect("pad_to_multiple_of", padded).harmless({"auto"}),
      no_effect("pad_token", padded).harmless({"<PAD_TOKEN>"}),
      unsupported("truncation_mode", "a text that is too long loses its end; data.on_too_long can drop it")
          .harmless({"keep_start"}),
      no_effect("dataset_num_proc", "data.preprocessing_num_workers is the number of threads").of<int64_t>(),
      no_effect("model_init_kwargs", "model.path and model.dtype determine what is read"),
      no_effect("trust_remote_code", "no Python code runs").of<bool>(),
      no_effect("router_aux_loss_coef", "the loss has no term for routers"));
  return entries;
}

const Entries& sft_keys() {
  const char* const packed = "samples are never padded; data.group_texts joins texts and cuts them to data.max_length";
  static const Entries entries = joined(
      {foreign_table(
           unsupported("assistant_only_loss", "write data.dialogue: messages and data.learn: assistant").of<bool>(),
           unsupported("completion_only_loss",
                       "write the columns, data.source: prompt and data.target: completion: only the target is learned")
               .of<bool>(),
           unsupported("dataset_text_field", "write it as data.source").harmless({"text"}),
           unsupported("chat_template_path", "write data.chat_template, a file with a template"),
           // to_dict() writes a token's key in place of its value.
           unsupported("eos_token", "the tokenizer's files name it; change it there").harmless({"<EOS_TOKEN>"}),
           no_effect("packing_strategy", packed).harmless({"bfd"}), no_effect("eval_packing", packed).of<bool>(),
           no_effect("shuffle_dataset", "data.shuffle shuffles every epoch").of<bool>().harmless({"true", "false"}),
           no_effect("dataset_kwargs", "texts are tokenized into data.cache_dir"),
           no_effect("num_of_sequences", packed).harmless({"1024"}),
           no_effect("chars_per_token", packed).harmless({"3.6"})),
       trl_keys()});
  return entries;
}

}  // namespace trainer::config
