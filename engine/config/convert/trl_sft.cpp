// `trl sft`: TRL's SFTConfig.
#include "engine/config/convert/source.h"
#include "engine/config/tables.h"

namespace trainer::config::trl {
namespace {

constexpr const char* kPacked =
    "samples are never padded, and an update has its number of samples whatever their length; raise "
    "training.global_batch_size for more tokens in an update";

Entries own_keys() {
  const char* const tokens = "change the tokenizer's files, whose tokens are used as they are";
  return foreign_table(
      translated("dataset_text_field", "The same as data.source, for texts."),
      translated("assistant_only_loss", "true: data.dialogue: messages, and data.learn: assistant.").of<bool>(),
      translated("completion_only_loss", "true: data.source: prompt, and data.target: completion.").of<bool>(),
      translated("chat_template_path", "A .jinja or .j2 file: data.chat_template, with data.dialogue: messages."),
      translated("packing", "With packing_strategy wrapped: data.group_texts; otherwise not honored.").of<bool>(),
      translated("packing_strategy", "See packing.").one_of({"bfd", "bfd_split", "bfd-requeue", "wrapped", "ffd"}),
      no_effect("eval_packing", kPacked), no_effect("eos_token", tokens).harmless({"<EOS_TOKEN>"}),
      unsupported("loss_type", "the loss is the cross-entropy of the learned tokens").harmless({"nll", "chunked_nll"}));
}

enum class Records { kUnknown, kTexts, kTurns, kCompletions };

/// Only what a key of the file tells: TRL looks at the columns of the dataset.
Records records_of(const Source& source) {
  for (const char* const key : {"chat_template", "chat_template_path"})
    if (source.asks(key)) return Records::kTurns;
  if (source.is_true("assistant_only_loss")) return Records::kTurns;
  if (source.is_true("completion_only_loss")) return Records::kCompletions;
  return source.asks("dataset_text_field") && source.word("dataset_text_field") != "text" ? Records::kTexts
                                                                                          : Records::kUnknown;
}

void convert_turns(Source& source) {
  for (const char* const told : {"assistant_only_loss", "chat_template", "chat_template_path"})
    if (source.asks(told)) source.set(told, "data.dialogue", "messages");
  source.set("chat_template", "data.chat_template");
  if (source.is_true("assistant_only_loss"))
    source.set("assistant_only_loss", "data.learn", "assistant");
  else
    source.assume("assistant_only_loss", "data.learn", "all");
  const GivenKey file = source.key("chat_template_path");
  if (!source.asks("chat_template_path")) return;
  if (file.value.text.ends_with(".jinja") || file.value.text.ends_with(".j2"))
    source.set(file, "data.chat_template", Node::scalar(source.path(file.value.text), true));
  else
    source.not_honored(file, "data.chat_template is a file with a template, not the folder of a tokenizer");
}

void convert_packing(Source& source, Records records) {
  if (!source.is_true("packing")) return;
  const bool turns = records == Records::kTurns || records == Records::kCompletions;
  if (source.word("packing_strategy") != "wrapped")
    source.not_honored("packing", kPacked);
  else if (turns)
    source.not_honored("packing", "data.group_texts is for plain texts; these samples have a learned part");
  else
    source.set("packing", "data.group_texts", "true");
}

}  // namespace

const Entries& sft_table() {
  static const Entries entries = with_foreign_keys(joined({common_table(), own_keys()}), sft_keys());
  return entries;
}

void convert_sft(Source& source) {
  convert_common(source, "2e-5");
  const Records records = records_of(source);
  const GivenKey completions = source.key("completion_only_loss");
  if (records == Records::kTurns) {
    convert_turns(source);
  } else if (records == Records::kCompletions) {
    source.set(completions, "data.source", Node::scalar("prompt"));
    source.set(completions, "data.target", Node::scalar("completion"));
  } else {
    source.set("dataset_text_field", "data.source");
    if (records == Records::kUnknown)
      leave_columns_open(source,
                         "the column text. For turns in messages, set data.dialogue: messages and data.learn: all; for "
                         "texts in prompt and completion, data.source: prompt and data.target: completion");
  }
  convert_packing(source, records);
}

}  // namespace trainer::config::trl
