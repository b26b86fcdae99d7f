#pragma once

#include "models/nn/row_losses.h"

namespace trainer::nn::reference {

/// The RowSums of each row of this rank's logits [R, V]: [R, 4] fp64.
at::Tensor row_sums(const at::Tensor& logits, const Targets& targets);

/// nn::row_slopes.
at::Tensor row_slopes(const at::Tensor& logits, const Targets& targets, const at::Tensor& log_sum,
                      const at::Tensor& factor, bool in_place);

}  // namespace trainer::nn::reference
