#pragma once

#include <ATen/core/Tensor.h>

namespace trainer::nn {

/// Sum over rows of -log softmax(logits)[label], in fp32; rows whose label is -100 count nothing.
/// logits [U, V] any float dtype, labels [U] int64. The gradient has the logits' dtype.
at::Tensor cross_entropy_sum(const at::Tensor& logits, const at::Tensor& labels);

}  // namespace trainer::nn
