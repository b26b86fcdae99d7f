#pragma once

#include <string>
#include <vector>

#include "engine/evaluation/predictions.h"

namespace trainer::evaluation {

/// BLEU of the corpus, from 0 to 100, as sacrebleu computes it by default: one reference each, n-grams of up to 4
/// tokens, mteval's tokenization 13a, exponential smoothing. Sources: Papineni et al. 2002; Post 2018.
double bleu_score(const std::vector<Prediction>& predictions);

}  // namespace trainer::evaluation
