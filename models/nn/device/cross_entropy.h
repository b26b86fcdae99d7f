#pragma once

#include "models/nn/device/device_kernels.h"
#include "models/nn/vocabulary.h"

namespace trainer::nn::device {

/// nn::cross_entropy_sum, for labels already checked. One kernel reads the logits forward, one backward; nothing of
/// their size is made but the gradient.
at::Tensor cross_entropy_sum(const DeviceKernels& kernels, const at::Tensor& logits, const at::Tensor& labels,
                             double label_smoothing, const Vocabulary& vocabulary);

}  // namespace trainer::nn::device
