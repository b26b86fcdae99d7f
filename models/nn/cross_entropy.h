#pragma once

#include <ATen/core/Tensor.h>

#include "models/nn/peers.h"

namespace trainer::nn {

constexpr int64_t kIgnored = -100;  // the label of a row that counts nothing

/// Sum over rows of (1 - e) * -log p[label] + e * mean(-log p), p = softmax(logits) and e = `label_smoothing`, in fp32;
/// rows whose label is -100 count nothing. logits [U, V] any float dtype, labels [U] int64, which may be on the CPU.
/// Keeps the logits; the gradient, in their dtype, is the only other tensor of their size. Throws InternalError for a
/// label beyond V. `shared`: the logits are those of its slice of the vocabulary; then it is a collective of its peers,
/// which all get the same sum, and V is the whole vocabulary. Only a few numbers a row are sent.
at::Tensor cross_entropy_sum(const at::Tensor& logits, const at::Tensor& labels, double label_smoothing = 0,
                             const SharedVocabulary* shared = nullptr);

}  // namespace trainer::nn
