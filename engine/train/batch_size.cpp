#include "engine/train/batch_size.h"

#include "engine/base/errors.h"
#include "engine/base/log.h"
#include "engine/prepare/run_length.h"
#include "engine/train/memory_fit.h"
#include "engine/train/memory_plan.h"
#include "engine/train/start.h"

namespace trainer::train {
namespace {

int64_t memory_with(const config::Plan& plan, const prepare::Inputs& inputs, int64_t per_device) {
  const config::Plan candidate = with_batch_size(plan, per_device);
  return plan_largest_memory(candidate, inputs.datasets.labels, workload_of(candidate, inputs.datasets)).peak();
}

}  // namespace

int64_t largest_batch_size(const config::Plan& plan, const prepare::Inputs& inputs, int64_t free_bytes) {
  const int64_t usable = usable_bytes(free_bytes);
  return largest_that_fits(plan.config.training.per_device_train_batch_size,
                           [&](int64_t per_device) { return memory_with(plan, inputs, per_device) <= usable; });
}

void find_batch_size(config::Plan& plan, const prepare::Inputs& inputs, dist::Comm& comm, int64_t free_bytes) {
  config::TrainingConfig& t = plan.config.training;
  const int64_t asked = t.per_device_train_batch_size;
  const int64_t mine = largest_batch_size(plan, inputs, free_bytes);
  const auto found = -static_cast<int64_t>(comm.max(-static_cast<double>(mine)));
  if (found < 1)
    throw MachineError(
        "even one sample of the maximum length does not fit: a rank has {} MiB free, but needs {} MiB.\n  Use more "
        "ranks under FSDP, gradient_checkpointing, a smaller data.max_length, or a machine with more memory.",
        free_bytes >> 20, memory_with(plan, inputs, 1) >> 20);
  // A resumed run keeps the global batch of its checkpoint.
  if (agreed_start(plan.config, comm) == Start::kFromScratch)
    t.global_batch_size = prepare::global_batch(t, plan.data_ranks());
  t.per_device_train_batch_size = found;
  if (found == asked) return;
  t.per_device_eval_batch_size = std::min(t.per_device_eval_batch_size, found);
  plan.origins["training.per_device_train_batch_size"] = "auto_find_batch_size";
  if (comm.rank() == 0)
    log::info(
        "auto_find_batch_size: per_device_train_batch_size {} instead of {} fits into {} MiB per rank; the global "
        "batch is unchanged",
        found, asked, free_bytes >> 20);
}

void check_memory(const config::Plan& plan, const prepare::Inputs& inputs, int64_t free_bytes) {
  const auto peak_of = [&](const config::Plan& other) {
    const data::Datasets datasets = shortened(inputs.datasets, plan.config.data, other.config.data);
    return plan_largest_memory(other, datasets.labels, workload_of(other, datasets)).peak();
  };
  const int64_t needed = peak_of(plan);
  if (needed <= free_bytes) return;  // an allocator may leave nothing unused, so don't refuse for its overhead
  constexpr size_t kMost = 4;
  throw MachineError("{}: this rank needs {} of GPU memory, but only {} are free\n  {}", plan.source, gibibytes(needed),
                     gibibytes(free_bytes), what_fits_text(what_fits(plan, peak_of, usable_bytes(free_bytes), kMost)));
}

}  // namespace trainer::train
