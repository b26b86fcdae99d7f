#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/evaluation/predictions.h"

namespace trainer::evaluation {

/// A number computed from the predictions of all validation samples. Rank 0 computes it.
using Score = std::function<double(const std::vector<Prediction>& predictions)>;

/// Adds a metric that compares predictions with labels: from now on, a configuration can name it in evaluation.metrics
/// and checkpoint.metric_for_best_model, and records have it as "eval_" and its name. Errors: ConfigError if the name is
/// taken, or isn't letters, digits and underscores.
void add_metric(const std::string& name, bool lower_is_better, Score score);

/// Those of `metrics` (engine/base/metrics.h) that compare predictions with labels, by "eval_" and their name.
std::map<std::string, double> scores(const std::vector<Prediction>& predictions,
                                     const std::vector<std::string>& metrics);

}  // namespace trainer::evaluation
