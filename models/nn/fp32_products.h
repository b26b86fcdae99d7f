// Matrix products in fp32 on CPUs whose instructions libtorch's BLAS leaves unused.
#pragma once

#include <ATen/core/Tensor.h>

namespace trainer::nn {

// Note [fp32 products]
// libtorch's BLAS is MKL, which uses AVX2 on AMD's CPUs whatever they have. oneDNN, which is also part of libtorch,
// uses AVX-512 there: a large product takes less than half the time, with the same error. TRAINER_BLAS=mkl leaves all
// of them to MKL.
//
// Some of oneDNN's kernels use the stack pointer as one more register, pointing into the heap (until 3.11.2, see its
// issue 4845). A signal's frame, which the kernel of the operating system writes below the stack pointer, then lands in
// somebody else's memory. So a thread that multiplies must not receive signals: Note [Signals].

/// Whether fp32_product() is faster than libtorch for a [m, k] and b [k, n], both of one dtype.
bool has_fp32_product(const at::Tensor& a, const at::Tensor& b);

/// out [m, n] = alpha * a b + beta * added, on the CPU, with any strides. `added` is broadcast to [m, n], may be `out`,
/// and is not read if beta is 0.
void fp32_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& added, float beta, float alpha,
                  const at::Tensor& out);

}  // namespace trainer::nn
