#pragma once

#include <functional>

#include <ATen/core/Tensor.h>

namespace trainer::dist {

/// Calls `then` after each backward pass has added to the gradient of `leaf`. Replaces an earlier call of this.
void after_gradient(const at::Tensor& leaf, std::function<void()> then);

}  // namespace trainer::dist
