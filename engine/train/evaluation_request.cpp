#include "engine/train/evaluation_request.h"

#include "engine/base/metrics.h"
#include "engine/train/preferences/preferences.h"

namespace trainer::train {

int64_t new_tokens(const config::Config& config) {
  return config.evaluation.max_new_tokens > 0 ? config.evaluation.max_new_tokens : config.data.max_target_length;
}

evaluation::Request evaluation_request(const config::Config& config, const prepare::Inputs& inputs, bool generates,
                                       std::function<void(const std::string&)> progress) {
  const config::EvaluationConfig& options = config.evaluation;
  return {*inputs.datasets.validation,
          inputs.tokenizer.get(),
          inputs.datasets.labels,
          config.training.per_device_eval_batch_size,
          new_tokens(config),
          config.training.label_smoothing_factor,
          {options.temperature, options.top_k, options.top_p, static_cast<uint64_t>(config.seed)},
          {.count = options.num_beams, .length_penalty = options.length_penalty},
          generates || any_compares(options.metrics),
          options.metrics,
          std::move(progress),
          config.dpo ? preference_options(*config.dpo) : nn::PreferenceOptions()};
}

}  // namespace trainer::train
