#include "models/nn/device/cross_entropy.h"

#include <ATen/ops/empty.h>

namespace trainer::nn::device {

at::Tensor row_sums(const DeviceKernels& kernels, const at::Tensor& logits, const Targets& targets) {
  const at::Tensor sums = at::empty({logits.size(0), RowSums::kNumbers}, logits.options().dtype(at::kDouble));
  kernels.cross_entropy_sums(*element_type(logits.scalar_type()), address_of(logits),
                             address_as<int64_t>(targets.labels), targets.vocabulary.begin, logits.size(0),
                             logits.size(1), targets.smoothing > 0, static_cast<double*>(address_in(sums)),
                             stream_of(kernels, logits));
  return sums;
}

void row_slopes(const DeviceKernels& kernels, const at::Tensor& logits, const Targets& targets,
                const at::Tensor& log_sum, const at::Tensor& factor, const at::Tensor& out) {
  kernels.cross_entropy_gradient(
      *element_type(logits.scalar_type()), address_of(logits), address_as<int64_t>(targets.labels),
      address_as<float>(log_sum), address_as<float>(factor), static_cast<float>(1 - targets.smoothing),
      static_cast<float>(targets.smoothing / static_cast<double>(targets.vocabulary.whole)), targets.vocabulary.begin,
      logits.size(0), logits.size(1), address_in(out), stream_of(kernels, logits));
}

}  // namespace trainer::nn::device
