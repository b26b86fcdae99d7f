#include "engine/train/update_plan.h"

#include "engine/prepare/run_length.h"

namespace trainer::train {

data::SampleOrder order_of(const config::Config& config, const data::Samples& samples, int64_t global_batch) {
  data::SampleOrderOptions options{config.seed, config.data.shuffle && !samples.ordered(), samples.sources(), {}, {}};
  options.left_out = prepare::samples_left_out(config.training, samples.size(), global_batch);
  if (!samples.ordered()) options.weights = config.data.train.weights;
  if (config.training.group_by_length) options.length = [&samples](int64_t i) { return samples.tokens(i); };
  return data::SampleOrder(std::move(options));
}

data::PackingPlan plan_update(const config::TrainingConfig& options, const data::TokensOf& tokens,
                              data::Range positions, int64_t ranks) {
  if (options.max_tokens == 0) return data::plan_evenly(positions, tokens, ranks, options.per_device_train_batch_size);
  return data::plan_by_tokens(positions, tokens, ranks, options.max_tokens);
}

}  // namespace trainer::train
