#pragma once

#include "models/nn/feed_forward.h"

namespace trainer::nn::reference {

/// act(gate) * up, with dropout: elements in `kept` times `scale`, 0 elsewhere. `up` and `kept` may be undefined.
/// gate and up [T, F]; kept bool [T, F].
at::Tensor activate(const at::Tensor& gate, const at::Tensor& up, Activation activation, const at::Tensor& kept,
                    double scale);

}  // namespace trainer::nn::reference
