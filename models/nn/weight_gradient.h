// Gradients that a function's backward adds to a weight's itself.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/nn/parameter.h"

namespace trainer::nn {

// Note [Gradients in place]
// libtorch sums the gradients of a weight that has several uses, each as large as the weight, in new memory, and then
// adds the sum to the weight's gradient, which was filled with zeros before. For a vocabulary's table these are passes
// over hundreds of megabytes, most of them zeros: an embedding's gradient has as many rows as there are tokens. So the
// backward of an embedding, of the head and of a large linear layer add theirs to the weight's gradient, which the
// strategies allocate beforehand. The first one of an update replaces values that are no longer needed
// (Parameter::stale_grad), and the product of a linear layer is computed there. They return a gradient without rows, so
// that the weight's hooks run once all of its uses are done. Only on the CPU, and in its dry runs.

/// Whether a backward may add to the gradient of `weight`, in its dtype.
bool takes_gradient_in_place(const at::Tensor& weight);
/// What that backward returns for `weight`, of two dimensions.
at::Tensor no_rows(const at::Tensor& weight);

/// Whether the gradient of `weight` is large enough that a linear layer's backward adds to it in place.
bool writes_gradient(const at::Tensor& weight);
/// From now on, the gradient of `p` may be stale: libtorch, too, adds to zeros then.
void allow_stale_gradient(const ParameterPtr& p);
/// Fills the gradient of `p` with zeros if it is stale.
void refresh_gradient(Parameter& p);
/// Adds `gradient`, or the product a b, to that of `p`.
void add_to_gradient(Parameter& p, const at::Tensor& gradient);
void add_to_gradient(Parameter& p, const at::Tensor& a, const at::Tensor& b);

}  // namespace trainer::nn
