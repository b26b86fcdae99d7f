// What becomes of updates whose loss or gradients can't be right.
#pragma once

#include <optional>
#include <string>

#include "engine/config/sections.h"
#include "engine/optim/loss_watch.h"
#include "engine/train/memory_snapshot.h"

namespace trainer::train {

// Note [Divergence]
// A loss or a gradient that is not finite, or a loss that is far above those before it
// (training.loss_spike_deviations), makes an update worthless. training.on_divergence says what happens then:
//   stop      the run ends with exit code 5; the weights are those before the update
//   skip      the weights stay as they are, and the run goes on with the next samples
//   rollback  weights and optimiser go back to how they were up to `snapshot_steps` updates ago, and the run goes on
//             with the next samples: those in between are not seen again, as they may be what led here. Steps are
//             counted on, so that nothing that was written about the run is overtaken
// A run that doesn't get out of it ends with 5 as well: after kMostInARow skips in a row, or as many returns with fewer
// than `snapshot_steps` updates between them. Every rank decides the same, as they have the same loss and gradient
// norm.
class Divergence {
 public:
  static constexpr int kMostInARow = 10;
  enum class Remedy { kStop, kSkip, kRollBack };

  explicit Divergence(const config::TrainingConfig& training);

  /// Whether an update with this loss diverges although all is finite.
  bool is_spike(double loss) const { return watch_.is_spike(loss); }
  /// The update that makes `step` of them went well.
  void pass(int64_t step, double loss);
  /// The update that would have made `step` of them diverged: what to do now.
  Remedy remedy(int64_t step);

  /// Between two updates: keeps what rollback needs.
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
  int64_t last_step_ = -1;                  // at which one diverged
  std::optional<MemorySnapshot> snapshot_;  // with kRollback
  int64_t kept_step_ = -1;
};

}  // namespace trainer::train
