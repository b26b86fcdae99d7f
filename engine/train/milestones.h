// Which updates are followed by an evaluation and by a checkpoint.
#pragma once

#include <cstdint>

#include "engine/config/sections.h"

namespace trainer::train {

/// The schedule of evaluations and checkpoints, as the options say it. The end of a run, and requests of users and
/// launchers, are not part of it.
class Milestones {
 public:
  /// The run after an update: `step` updates and `epochs` passes over the samples.
  struct Position {
    int64_t step = 0;
    double epochs = 0;
    bool ends_epoch = false;
  };

  /// `config` must outlive it.
  explicit Milestones(const config::Config& config) : config_(config) {}

  /// Whether the validation samples are evaluated. Each scheduled checkpoint needs its metric if the best one is kept.
  bool evaluates(const Position& at) const;
  /// Whether a checkpoint is saved. `is_best`: this update's evaluation was better than all before it.
  bool saves(const Position& at, bool is_best) const;

 private:
  /// Whether checkpoint.save_strategy schedules a save here, without regard to metrics.
  bool save_scheduled(const Position& at) const;

  const config::Config& config_;
};

}  // namespace trainer::train
