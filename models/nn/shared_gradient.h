// The gradient of rows that several layers read.
#pragma once

#include <memory>

#include <ATen/core/Tensor.h>

namespace trainer::nn {

struct Rows;

// Note [Shared gradients]
// q, k and v read the same rows, as gate and up do, and LoRA's branches. Autograd adds up the gradients of such rows in
// a pass over memory for each: 156 of 33 MB in an update of an 8B LLaMA with 4,096 tokens, 3.6 ms on an H200. On a
// device, each frozen layer's product is added to the sum by the product itself (beta = 1), which costs a read that the
// product hides, and rounds once instead of twice. On the CPU, whose products add up blocks, it would cost more.

/// The sum of such gradients, during a backward pass.
class SharedGradient {
 public:
  /// Adds a b, [T, width].
  void add_product(const at::Tensor& a, const at::Tensor& b);
  /// The sum, undefined if nothing was added. Leaves none.
  at::Tensor take();

 private:
  at::Tensor sum_;
};
using SharedGradientPtr = std::shared_ptr<SharedGradient>;

/// `x` for several readers. On a device, where a backward pass may follow, its gradient is shared.
Rows share_gradient(const Rows& x);

}  // namespace trainer::nn
