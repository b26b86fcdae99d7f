#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/evaluation/predictions.h"

namespace trainer::evaluation {

/// accuracy, precision_macro, recall_macro, f1_macro, f1_micro, f1_weighted and matthews_correlation, as scikit-learn
/// defines them. The classes are the texts that occur as labels or predictions; what is divided by zero is 0.
std::map<std::string, double> class_scores(const std::vector<Prediction>& predictions);

}  // namespace trainer::evaluation
