#include "models/nn/cross_entropy.h"

#include <ATen/ops/log_softmax.h>
#include <ATen/ops/nll_loss.h>

namespace trainer::nn {

at::Tensor cross_entropy_sum(const at::Tensor& logits, const at::Tensor& labels) {
  constexpr int64_t kIgnored = -100;
  return at::nll_loss(at::log_softmax(logits, -1, at::kFloat), labels, {}, at::Reduction::Sum, kIgnored);
}

}  // namespace trainer::nn
