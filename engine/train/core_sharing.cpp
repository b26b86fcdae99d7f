#include "engine/train/core_sharing.h"

#include <algorithm>
#include <string>
#include <utility>

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "engine/base/log.h"
#include "models/nn/cpu_products.h"

namespace trainer::train {
namespace {

/// See Note [Fair threads].
bool can_change_threads(const config::Config& config, const at::Device& device) {
  const config::MixedPrecision mixed = config.mixed_precision;
  return device.is_cpu() && mixed != config::MixedPrecision::kFp16 &&
         nn::products_ignore_threads(mixed == config::MixedPrecision::kNo ? at::kFloat : at::kBFloat16);
}

}  // namespace

CoreSharing::CoreSharing(const config::Config& config, const at::Device& device, bool warns)
    : most_threads_(std::max<int64_t>(1, config.num_cpu_threads_per_process)), warns_(warns) {
  if (can_change_threads(config, device)) fair_threads_.emplace(at::get_num_threads(), seconds_all_waited_for_core);
}

void CoreSharing::begin_update() {
  begin_ = Clock::now();
  if (warns_) waited_before_ = seconds_waited_for_core();
}

void CoreSharing::end_update(int64_t step) {
  const std::chrono::duration<double> seconds = Clock::now() - begin_;
  if (warns_) warn_once(seconds.count(), seconds_waited_for_core() - waited_before_);
  if (fair_threads_) choose_threads(step);
}

void CoreSharing::warn_once(double seconds, double waited) {
  const double part = shared_cores_.see(seconds, waited);
  if (part <= 0) return;
  const std::string fewer =
      most_threads_ == 1
          ? ""
          : fmt::format("lower num_cpu_threads_per_process (OMP_NUM_THREADS), which is {}, or ", most_threads_);
  log::warning(
      "rank 0 waited for a CPU for {:.0f} % of the last {} updates: other processes use its cores, or this machine's "
      "ranks have more threads than it has cores: {}give the run cores of its own",
      100 * part, SharedCores::kWindow, fewer);
}

void CoreSharing::choose_threads(int64_t step) {
  const std::chrono::duration<double> now = Clock::now().time_since_epoch();
  const int before = at::get_num_threads(), threads = fair_threads_->after_update(now.count());
  if (threads == before) return;
  at::set_num_threads(threads);
  if (std::exchange(has_used_fewer_, true)) return;
  log::info("update {}: other processes use this machine's cores, so {} of {} threads compute; now and then all do",
            step, threads, before);
}

}  // namespace trainer::train
