// What to do with updates whose loss or gradients can't be right.
#pragma once

#include <optional>
#include <string>

#include "engine/config/sections/training.h"
#include "engine/optim/loss_watch.h"
#include "engine/train/memory_snapshot.h"

namespace trainer::train {

// Note [Divergence]
// A loss or a gradient that is not finite, or a loss that is far above the previous ones
// (training.loss_spike_deviations), makes an update worthless. training.on_divergence selects the remedy:
//   stop      the run ends with exit code 5; the weights are those before the update
//   skip      the weights are left unchanged, and the run continues with the next samples
//   rollback  weights and optimizer return to their state up to `snapshot_steps` updates ago, and the run continues
//             with the next samples: those in between are not used again, as they may have caused the divergence.
//             Step numbers keep increasing, so that nothing already written about the run becomes wrong
// A run that keeps diverging also ends with exit code 5: after kMostInARow skips in a row, or as many rollbacks with
// fewer than `snapshot_steps` updates between them. All ranks decide the same, as they have the same loss and gradient
// norm.
class Divergence {
 public:
  static constexpr int kMostInARow = 10;
  enum class Remedy { kStop, kSkip, kRollBack };

  explicit Divergence(const config::TrainingConfig& training);

  /// Whether an update with this finite loss diverges.
  bool is_spike(double loss) const { return watch_.is_spike(loss); }
  /// Records that update `step` was good.
  void pass(int64_t step, double loss);
  /// Records that update `step` diverged, and returns what to do.
  Remedy remedy(int64_t step);

  /// Between two updates: takes the snapshot that rollback needs.
  void keep(parallel::ParallelModel& model, const optim::Optimizer& optimizer, int64_t step);
  void roll_back(parallel::ParallelModel& model, optim::Optimizer& optimizer) const;
  int64_t kept_step() const { return kept_step_; }

  const optim::LossWatchState& state() const { return watch_.state(); }
  void set_state(const optim::LossWatchState& state) { watch_.set_state(state); }

 private:
  config::OnDivergence choice_;
  int64_t every_;
  optim::LossWatch watch_;
  int in_a_row_ = 0;
  int64_t last_step_ = -1;                  // of the last diverged update
  std::optional<MemorySnapshot> snapshot_;  // with kRollback
  int64_t kept_step_ = -1;
};

}  // namespace trainer::train
