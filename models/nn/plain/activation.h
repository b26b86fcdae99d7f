#pragma once

#include "models/nn/feed_forward.h"

namespace trainer::nn::plain {

/// act(gate) * up, and of that what dropout keeps, times `scale`; without `up` or `kept` (undefined): act(gate) alone.
/// gate and up [T, F]; kept bool [T, F].
at::Tensor activate(const at::Tensor& gate, const at::Tensor& up, Activation activation, const at::Tensor& kept,
                    double scale);

}  // namespace trainer::nn::plain
