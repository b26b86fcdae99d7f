#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/evaluation/predictions.h"

namespace trainer::evaluation {

/// Those of `metrics` (engine/base/metrics.h) that compare predictions with labels, by "eval_" and their name.
std::map<std::string, double> scores(const std::vector<Prediction>& predictions,
                                     const std::vector<std::string>& metrics);

}  // namespace trainer::evaluation
