// Matrix products in fp32 on CPUs whose instructions libtorch's BLAS leaves unused.
#pragma once

#include <ATen/core/Tensor.h>

namespace trainer::nn {

// Note [fp32 products]
// libtorch's BLAS is MKL. On AMD's CPUs it uses AVX2, whatever they have, and products with few rows, columns or terms
// take several times as long as they need. Ours take its place there (Note [Products by tiles]), and on CPUs with AMX
// for products that are too small for it.

/// Whether this CPU's products are ours.
bool uses_fp32_products();
/// Whether fp32_product() is faster than libtorch for products with `a`.
bool has_fp32_product(const at::Tensor& a);

/// out [m, n] = alpha * a b + beta * added, on the CPU, with any strides. `added` is broadcast to [m, n], may be `out`,
/// and is not read if beta is 0.
void fp32_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& added, float beta, float alpha,
                  const at::Tensor& out);

}  // namespace trainer::nn
