// Ends a run whose evaluations no longer improve.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "engine/checkpoint/manifest.h"
#include "engine/config/sections.h"

namespace trainer::train {

/// Counts evaluations as transformers' EarlyStoppingCallback does: one that is better than the best so far by more than
/// the threshold starts the count again. Ranks that see the same metrics decide the same.
class EarlyStopping {
 public:
  explicit EarlyStopping(const config::Config& config);

  /// `measured`: an evaluation's finite metrics. One without the metric counts as no better. Returns whether it is the
  /// best so far, by any margin.
  bool see(const std::map<std::string, double>& measured);
  /// Whether evaluation.early_stopping_patience evaluations in a row were no better.
  bool stops() const { return patience_ > 0 && state_.without_better >= patience_; }
  /// Why, for the log.
  std::string text() const;

  const checkpoint::EvaluationsSoFar& state() const { return state_; }
  void set_state(const checkpoint::EvaluationsSoFar& state) { state_ = state; }

 private:
  std::string metric_;  // eval_loss …
  bool lower_is_better_;
  int64_t patience_;
  double threshold_;
  checkpoint::EvaluationsSoFar state_;
};

}  // namespace trainer::train
