#pragma once

#include "models/nn/vocabulary.h"

namespace trainer::nn::reference {

/// nn::cross_entropy_sum, for labels already checked.
at::Tensor cross_entropy_sum(const at::Tensor& logits, const at::Tensor& labels, double label_smoothing,
                             const Vocabulary& vocabulary);

}  // namespace trainer::nn::reference
