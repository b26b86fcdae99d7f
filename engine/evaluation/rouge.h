#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/evaluation/predictions.h"

namespace trainer::evaluation {

/// rouge1, rouge2 and rougeL: the mean F-measure over the samples, as the package rouge-score computes it without
/// stemming. Source: Lin 2004.
std::map<std::string, double> rouge_scores(const std::vector<Prediction>& predictions);

}  // namespace trainer::evaluation
