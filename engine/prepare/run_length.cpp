#include "engine/prepare/run_length.h"

#include <algorithm>

#include "data/sampler/shares.h"
#include "engine/base/errors.h"

namespace trainer::prepare {

int64_t global_batch(const config::TrainingConfig& t, int64_t ranks) {
  if (t.global_batch_size > 0) return t.global_batch_size;
  return t.per_device_train_batch_size * t.gradient_accumulation_steps * ranks;
}

int64_t samples_left_out(const config::TrainingConfig& t, int64_t samples, int64_t global_batch) {
  if (!t.dataloader_drop_last) return 0;
  const int64_t accumulated = t.global_batch_size > 0 ? 1 : t.gradient_accumulation_steps;
  const int64_t batch = std::max<int64_t>(1, global_batch / accumulated);
  if (samples < batch)
    throw InputError(
        "training.dataloader_drop_last leaves out all {} training samples: a batch of all ranks has {}.\n  Leave the "
        "option out, or use smaller batches.",
        samples, batch);
  return samples % batch;
}

RunLength run_length(const config::Config& config, int64_t samples, int64_t ranks) {
  const config::TrainingConfig& t = config.training;
  RunLength length;
  length.global_batch = global_batch(t, ranks);
  if (samples == 0) {
    length.updates = std::max<int64_t>(0, t.max_steps);
    return length;
  }
  length.left_out = samples_left_out(t, samples, length.global_batch);
  const data::Updates updates(samples - length.left_out, length.global_batch);
  length.updates_per_epoch = updates.per_epoch();
  length.updates = t.max_steps > 0 ? t.max_steps : updates.total(t.num_train_epochs);
  return length;
}

}  // namespace trainer::prepare
