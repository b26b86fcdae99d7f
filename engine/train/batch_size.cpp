#include "engine/train/batch_size.h"

#include "engine/base/errors.h"
#include "engine/base/log.h"
#include "engine/prepare/run_length.h"
#include "engine/train/memory_plan.h"
#include "engine/train/trainer.h"

namespace trainer::train {
namespace {

/// The part of the free memory that tensors may take: allocators leave some unused, and samples need some.
constexpr double kUsable = 0.9;

config::Plan with_batch_size(config::Plan plan, int64_t per_device) {
  config::TrainingConfig& t = plan.config.training;
  t.global_batch_size = prepare::global_batch(t, plan.data_ranks());
  // Evaluation gives the same numbers whatever its batch size: where training has to do with less, so can it.
  if (per_device < t.per_device_train_batch_size)
    t.per_device_eval_batch_size = std::min(t.per_device_eval_batch_size, per_device);
  t.per_device_train_batch_size = per_device;
  return plan;
}

int64_t memory_with(const config::Plan& plan, const prepare::Inputs& inputs, int64_t per_device) {
  const config::Plan candidate = with_batch_size(plan, per_device);
  return plan_largest_memory(candidate, inputs.datasets.labels, workload_of(candidate, inputs.datasets)).peak();
}

}  // namespace

int64_t largest_batch_size(const config::Plan& plan, const prepare::Inputs& inputs, int64_t free_bytes) {
  const auto usable = static_cast<int64_t>(kUsable * static_cast<double>(free_bytes));
  const auto fits = [&](int64_t per_device) { return memory_with(plan, inputs, per_device) <= usable; };
  int64_t good = 0, bad = plan.config.training.per_device_train_batch_size + 1;
  if (fits(bad - 1)) return bad - 1;
  --bad;
  while (bad - good > 1) {
    const int64_t middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good;
}

void find_batch_size(config::Plan& plan, const prepare::Inputs& inputs, dist::Comm& comm, int64_t free_bytes) {
  config::TrainingConfig& t = plan.config.training;
  const int64_t asked = t.per_device_train_batch_size;
  const int64_t mine = largest_batch_size(plan, inputs, free_bytes);
  const auto found = -static_cast<int64_t>(comm.max(-static_cast<double>(mine)));
  if (found < 1)
    throw MachineError(
        "not even one sample of the longest fits: a rank has {} MiB free, and needs {} MiB.\n  Use more ranks under "
        "FSDP, gradient_checkpointing, a smaller data.max_length, or a machine with more memory.",
        free_bytes >> 20, memory_with(plan, inputs, 1) >> 20);
  // A run that is resumed keeps the global batch of its checkpoint.
  if (agreed_start(plan.config, comm) == Start::kAnew)
    t.global_batch_size = prepare::global_batch(t, plan.data_ranks());
  t.per_device_train_batch_size = found;
  if (found == asked) return;
  t.per_device_eval_batch_size = std::min(t.per_device_eval_batch_size, found);
  plan.origins["training.per_device_train_batch_size"] = "auto_find_batch_size";
  if (comm.rank() == 0)
    log::info(
        "auto_find_batch_size: per_device_train_batch_size {} instead of {} fits into {} MiB a rank; the global "
        "batch stays",
        found, asked, free_bytes >> 20);
}

}  // namespace trainer::train
