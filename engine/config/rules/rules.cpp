#include "engine/config/rules/rules.h"

#include <algorithm>

#include "engine/config/adapters/adapter_kind.h"
#include "engine/config/rules/groups.h"
#include "engine/config/rules/judge.h"

namespace trainer::config {

int64_t devices_of(const Config& config) {
  const bool several = config.distributed_type == DistributedType::kDataParallel;
  return several ? std::max<int64_t>(1, std::ssize(config.devices)) : 1;
}

const std::vector<Rule>& rules() {
  static const std::vector<Rule> all = [] {
    std::vector<Rule> rules;
    for (const auto& group : {rules_of_ranks(), rules_of_inputs(), rules_of_adapters(), rules_of_quantization(),
                              rules_of_preferences(), rules_of_training()})
      rules.insert(rules.end(), group.begin(), group.end());
    return rules;
  }();
  return all;
}

void check_rules(Draft& draft, const std::string& file, const std::string& job_file, bool to_run) {
  Judge judge(draft, file, job_file, to_run);
  for (const Rule& rule : rules()) {
    judge.rule = rule.id;
    rule.check(draft.config, judge);
  }
  judge.finish();
}

void complete(Config& config) {
  config.deepspeed_config.reset();
  config.megatron_lm_config.reset();
  if (config.num_processes == 0) config.num_processes = 1;
  if (!takes_lora_plus(config)) config.training.loraplus_lr_ratio = 0;
  TrainingConfig& t = config.training;
  if (devices_of(config) > 1 && t.global_batch_size == 0)
    t.global_batch_size = t.per_device_train_batch_size * t.gradient_accumulation_steps * devices_of(config);
  if (config.tokenizer.path.empty()) config.tokenizer.path = config.model.path;
}

}  // namespace trainer::config
