#pragma once

#include <vector>

#include "engine/evaluation/predictions.h"

namespace example {

/// Agreement of predictions and labels beyond chance: (p_o - p_e) / (1 - p_e), where p_o is the share of equal pairs and
/// p_e the share expected if predictions and labels were independent; 0 if they always agree by chance.
/// Source: Cohen 1960.
double cohen_kappa(const std::vector<trainer::evaluation::Prediction>& predictions);

}  // namespace example
