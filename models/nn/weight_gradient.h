// Gradients that a function's backward adds to a weight's itself.
#pragma once

#include <ATen/core/Tensor.h>

namespace trainer::nn {

// Note [Gradients in place]
// libtorch sums the gradients of a weight that has several uses, each as large as the weight, in new memory, and then
// adds the sum to the weight's gradient. For a vocabulary's table these are passes over hundreds of megabytes, most of
// them zeros: an embedding's gradient has as many rows as there are tokens. So the backward of an embedding and that of
// the head add theirs to the weight's gradient, which the strategies allocate beforehand. They return a gradient
// without rows, so that the weight's hooks run once all of its uses are done. Only on the CPU, and in its dry runs.

/// Whether a backward may add to the gradient of `weight`, in its dtype.
bool takes_gradient_in_place(const at::Tensor& weight);
/// What that backward returns for `weight`.
at::Tensor no_rows(const at::Tensor& weight);

}  // namespace trainer::nn
