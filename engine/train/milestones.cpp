#include "engine/train/milestones.h"

namespace trainer::train {
namespace {

bool due(int64_t step, int64_t every) {
  return every > 0 && step % every == 0;
}

}  // namespace

bool Milestones::save_scheduled(const Position& at) const {
  const config::CheckpointConfig& c = config_.checkpoint;
  if (c.save_strategy == config::SaveStrategy::kEpoch) return at.ends_epoch;
  return c.save_strategy == config::SaveStrategy::kSteps && due(at.step, c.save_steps);
}

bool Milestones::evaluates(const Position& at) const {
  const config::EvaluationConfig& e = config_.evaluation;
  const bool by_steps = e.eval_steps > 0;
  if ((by_steps ? static_cast<double>(at.step) : at.epochs) < e.eval_delay) return false;
  if (config_.checkpoint.metric_for_best_model != "none" && save_scheduled(at)) return true;
  return by_steps ? due(at.step, e.eval_steps) : at.ends_epoch;
}

bool Milestones::saves(const Position& at, bool is_best) const {
  return save_scheduled(at) || (is_best && config_.checkpoint.save_strategy == config::SaveStrategy::kBest);
}

}  // namespace trainer::train
