// Matrix products in bf16 and fp16 on CPUs where libtorch has only slow ones.
#pragma once

#include <ATen/core/Tensor.h>

namespace trainer::nn {

// Note [Half products]
// Without AVX-512, libtorch multiplies bf16 and fp16 matrices in a plain loop, many times slower than fp32. On Intel's
// CPUs with AVX-512 but without AMX it takes oneDNN for bf16, which reaches half of the speed of MKL in fp32, also
// where there are instructions for bf16. Here a block of the operands at a time is widened, multiplied by the BLAS in
// fp32, and rounded once.

/// Whether this CPU computes products in this dtype so: they are slower than in fp32.
bool widens_products(at::ScalarType type);

/// Whether half_product() is faster than libtorch for a [m, k] and b [k, n], both of one dtype.
bool has_half_product(const at::Tensor& a, const at::Tensor& b);

/// out [m, n] = alpha * a b + beta * added, summed in fp32 and rounded once; all of one dtype, bf16 or fp16, on the
/// CPU, with any strides. `added` is broadcast to [m, n], may be `out`, and is not read if beta is 0.
void half_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& added, float beta, float alpha,
                  const at::Tensor& out);

}  // namespace trainer::nn
