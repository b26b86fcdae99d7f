#include "engine/train/early_stopping.h"

#include <fmt/format.h>

#include "engine/base/metrics.h"

namespace trainer::train {
namespace {

std::string metric_of(const config::CheckpointConfig& checkpoint) {
  return checkpoint.metric_for_best_model == "none" ? "loss" : checkpoint.metric_for_best_model;
}

}  // namespace

EarlyStopping::EarlyStopping(const config::Config& config)
    : metric_("eval_" + metric_of(config.checkpoint)),
      lower_is_better_(lower_is_better(metric_of(config.checkpoint))),
      patience_(config.evaluation.early_stopping_patience),
      threshold_(config.evaluation.early_stopping_threshold) {}

bool EarlyStopping::see(const std::map<std::string, double>& measured) {
  ++state_.without_better;
  const auto found = measured.find(metric_);
  if (found == measured.end()) return false;
  const bool is_first = state_.improvements == 0;
  const double gain = lower_is_better_ ? state_.best - found->second : found->second - state_.best;
  if (is_first || gain > threshold_) state_.without_better = 0;
  if (!is_first && gain <= 0) return false;
  state_.best = found->second;
  ++state_.improvements;
  return true;
}

std::string EarlyStopping::text() const {
  return fmt::format("{} has not improved in {} evaluations{}", metric_, state_.without_better,
                     state_.improvements == 0 ? "" : fmt::format(" (its best is {:.4g})", state_.best));
}

}  // namespace trainer::train
