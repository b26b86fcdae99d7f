#pragma once

#include <ATen/core/Tensor.h>

namespace trainer::nn {

/// Where results below fp32 are rounded: once at the end, or also before the weight (the LLaMA family).
enum class RmsRounding { kOnce, kBeforeWeight };

/// x / sqrt(mean(x^2) + eps) * weight over the last dimension, computed in fp32, returned in `out_dtype`.
/// x [..., D] of any float dtype, weight [D] of any float dtype. Heads are normalized separately, as rows [T*heads, d].
/// Source: T5LayerNorm, LlamaRMSNorm; Zhang & Sennrich 2019.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps, at::ScalarType out_dtype,
                    RmsRounding rounding = RmsRounding::kOnce);

/// The norm of x, and x for the layers that go on beside it: on devices with kernels, backward adds the gradients of
/// both in the kernel of the norm's.
struct RmsNormAndInput {
  at::Tensor norm, x;
};
RmsNormAndInput rms_norm_and_input(const at::Tensor& x, const at::Tensor& weight, double eps, at::ScalarType out_dtype,
                                   RmsRounding rounding = RmsRounding::kOnce);

}  // namespace trainer::nn
