// The loss of each row of logits, and its gradient, without autograd: by the CPU's kernels, by a device's, or composed
// of operators (Note [Plain layers] in models/nn/reference/reference.h).
#pragma once

#include <ATen/core/Tensor.h>

#include "models/nn/vocabulary.h"

namespace trainer::nn {

constexpr int64_t kIgnored = -100;  // the label of an ignored row

/// What the rows of logits should predict.
struct Targets {
  at::Tensor labels;  // [R] int64, contiguous, where the logits are
  double smoothing;   // weight of the uniform distribution
  Vocabulary vocabulary;

  Targets rows(int64_t first, int64_t count) const { return {labels.narrow(0, first, count), smoothing, vocabulary}; }
};

struct RowLosses {
  at::Tensor loss;     // [R] fp64; 0 for an ignored row
  at::Tensor log_sum;  // [R] fp32: log of the sum of e^logit over the whole vocabulary; undefined values where ignored
};

/// Of contiguous logits [R, V]. Collective of the vocabulary's group.
RowLosses row_losses(const at::Tensor& logits, const Targets& targets);

/// `factor` (an fp32 scalar) times the gradient of the losses, in the logits' dtype: 0 for an ignored row. In place of
/// the logits, or a new tensor.
at::Tensor row_slopes(const at::Tensor& logits, const Targets& targets, const at::Tensor& log_sum,
                      const at::Tensor& factor, bool in_place);

}  // namespace trainer::nn
