// Rules about pairs of replies.
#include "engine/config/rules/groups.h"

#include "engine/base/metrics.h"
#include "engine/config/adapters/adapter_kind.h"
#include "engine/config/rules/judge.h"

namespace trainer::config {
namespace {

void pairs_of_replies(const Config& config, Judge& judge) {
  const DataConfig& d = config.data;
  if (!config.dpo) {
    if (!d.rejected.empty())
      judge.refuse("data.rejected",
                   "data.rejected is {}, but there is no dpo section to learn preferences with: add "
                   "`dpo: {{}}`, or leave data.rejected out",
                   d.rejected);
    return;
  }
  if (d.task != Task::kCausalLm)
    judge.refuse("data.task",
                 "data.task is {}, but dpo compares the replies of causal_lm models: set data.task to "
                 "causal_lm, or leave dpo out",
                 name_of(d.task));
  if (d.train.format == DataFormat::kMegatron)
    judge.refuse("data.train.format",
                 "data.train.format is megatron, whose files have no pairs, which dpo needs: use "
                 "jsonl, json or parquet");
  if (d.dialogue == Dialogue::kPlay)
    judge.refuse("data.dialogue", "data.dialogue is play, which has no pairs of replies, which dpo needs");
  if (d.group_texts)
    judge.refuse("data.group_texts",
                 "data.group_texts is true, but with dpo each sample is a pair of replies: leave it out");
  const std::pair<const char*, const std::string*> replies[] = {{"data.target", &d.target},
                                                                {"data.rejected", &d.rejected}};
  for (const auto& [option, reply] : replies)
    if (reply->empty()) judge.refuse(option, "{} is empty: dpo needs a column with these replies", option);
  if (d.target == d.rejected)
    judge.refuse("data.rejected", "data.rejected and data.target are both {}: they must be different replies",
                 d.rejected);
}

void loss_of_pairs(const Config& config, Judge& judge) {
  if (!config.dpo) return;
  if (config.training.label_smoothing_factor > 0)
    judge.refuse("training.label_smoothing_factor",
                 "training.label_smoothing_factor is {}, which smooths the labels of "
                 "tokens, but dpo's are preferences: set dpo.label_smoothing instead",
                 config.training.label_smoothing_factor);
  if (config.dpo->loss_type == PreferenceLoss::kRobust && config.dpo->label_smoothing == 0)
    judge.warn("dpo.loss_type", "dpo.loss_type is robust, but dpo.label_smoothing is 0: this is the loss sigmoid");
  if (config.lora && virtual_tokens(*config.lora) > 0)
    judge.refuse("lora.peft_type",
                 "lora.peft_type is {}, but dpo's reference would be the model with an untrained "
                 "prompt: use LORA",
                 config.lora->peft_type);
}

void pairs_on_mesh(const Config& config, Judge& judge) {
  if (!config.dpo || !config.parallelism_config) return;
  const auto refuse = [&](const std::string& name, int64_t size, const char* why) {
    const std::string option = "parallelism_config_" + name, path = "parallelism_config." + option;
    const auto [asked, value] = judge.asked_by(path, option, std::to_string(size));
    if (size > 1)
      judge.refuse(path, "{} is {}, but {}: dpo supports data, sharded and tensor parallelism", asked, value, why);
  };
  refuse("pp_size", config.parallelism_config->pp_size, "the loss of a pair needs both of its replies in one stage");
  refuse("cp_size", config.parallelism_config->cp_size,
         "the loss of a pair needs all tokens of its replies on one rank");
}

void metrics_of_pairs(const Config& config, Judge& judge) {
  if (config.dpo && config.evaluation.generate)
    judge.refuse("evaluation.generate",
                 "evaluation.generate is true, but dpo's evaluation compares the replies of "
                 "pairs: leave it out; `trainer generate` writes replies");
  for (const std::string& name : config.evaluation.metrics) {
    if (config.dpo && name != "loss" && !is_reward(name))
      judge.refuse("evaluation.metrics",
                   "evaluation.metrics: {} is not a metric of pairs, which dpo evaluates: loss and "
                   "rewards/chosen, rejected, accuracies and margins are",
                   name);
    if (!config.dpo && is_reward(name))
      judge.refuse("evaluation.metrics", "evaluation.metrics: {} is a metric of pairs, which need dpo", name);
  }
}

}  // namespace

std::vector<Rule> rules_of_preferences() {
  return {
      {"preferences-are-pairs", "Preferences are pairs of replies to one prompt, by a causal model.", pairs_of_replies},
      {"preference-loss-fits", "The loss of pairs has its own smoothing, and a reference without a learned prompt.",
       loss_of_pairs},
      {"pairs-are-whole", "A rank computes both replies of a pair.", pairs_on_mesh},
      {"pairs-have-metrics", "Pairs are measured by their loss and rewards.", metrics_of_pairs},
  };
}

}  // namespace trainer::config
