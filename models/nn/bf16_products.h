// Matrix products of bf16 numbers on CPUs that have instructions for them.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace trainer::nn {

/// Whether bf16_product() is faster than libtorch for a [m, k] and b [k, n], both of one dtype (Note [bf16 products]).
bool has_bf16_product(const at::Tensor& a, const at::Tensor& b);
/// The same for fp32 matrices.
bool has_bf16_product_of_fp32(int64_t m, int64_t n, int64_t k);

/// out [m, n] = alpha * a b + beta * added, on the CPU, in fp32 or bf16, with any strides. `added` is broadcast to
/// [m, n], may be `out`, and is not read if beta is 0.
void bf16_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& added, float beta, float alpha,
                  const at::Tensor& out);

}  // namespace trainer::nn
