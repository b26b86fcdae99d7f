// `trl dpo`: TRL's DPOConfig.
#include "engine/config/convert/source.h"
#include "engine/config/tables.h"
#include "engine/config/translate/losses_of_pairs.h"

namespace trainer::config::trl {
namespace {

Entries dpo_keys() {
  return foreign_table(
      translated("loss_type", "dpo.loss_type; [sigmoid, sft]: with dpo.rpo_alpha. Losses that dpo lacks are refused."),
      translated("loss_weights", "[1, a] of [sigmoid, sft]: dpo.rpo_alpha: a; left out: 1."),
      translated("beta", "The same as dpo.beta."),
      translated("label_smoothing", "With loss_type robust: dpo.label_smoothing. TRL's sigmoid ignores it.")
          .of<double>(),
      translated("rpo_alpha", "The same as dpo.rpo_alpha."),
      translated("disable_dropout", "true, or left out: training.dropout: false.").of<bool>());
}

void convert_loss(Source& source) {
  const GivenKey losses = source.key("loss_type"), weights = source.key("loss_weights");
  if (losses.value.is_null()) {
    source.assume("loss_type", "dpo.loss_type", "sigmoid");
    if (source.asks("loss_weights")) source.not_honored("loss_weights", "loss_type is not given");
    return;
  }
  const LossesOfPairs read = losses_of_pairs(losses.value, weights.value);
  PreferenceLoss loss{};
  if (!read.why.empty()) return source.refuse("loss_type", read.why);
  if (!decode(read.loss_type, loss).empty())
    return source.refuse("loss_type", fmt::format("it can be {}", fmt::join(kind_of<PreferenceLoss>().choices, ", ")));
  source.set(losses, "dpo.loss_type", read.loss_type);
  if (!read.rpo_alpha.is_null())
    source.set(weights.value.is_null() ? losses : weights, "dpo.rpo_alpha", read.rpo_alpha);
  if (loss == PreferenceLoss::kRobust) source.set("label_smoothing", "dpo.label_smoothing");
}

}  // namespace

const Entries& dpo_table() {
  static const Entries entries = with_foreign_keys(joined({common_table(), dpo_keys()}), config::dpo_table());
  return entries;
}

void convert_dpo(Source& source) {
  convert_common(source, "1e-6");
  convert_loss(source);
  source.set("beta", "dpo.beta");
  source.set("rpo_alpha", "dpo.rpo_alpha");
  if (!source.draft().is_set("dpo.label_smoothing") && source.asks("label_smoothing"))
    source.not_honored("label_smoothing",
                       "TRL's loss reads it only if loss_type is robust; dpo.label_smoothing makes "
                       "sigmoid conservative DPO");
  const GivenKey dropout = source.key("disable_dropout");
  if (dropout.value.is_null())
    source.assume("disable_dropout", "training.dropout", "false");
  else if (source.is_true("disable_dropout"))
    source.set("disable_dropout", "training.dropout", "false");
  source.set("chat_template", "data.chat_template");
  if (source.asks("chat_template"))
    source.set("chat_template", "data.dialogue", "messages");
  else
    leave_columns_open(source,
                       "texts in prompt, chosen and rejected. If chosen and rejected are lists of turns, set "
                       "data.dialogue: messages");
}

}  // namespace trainer::config::trl
