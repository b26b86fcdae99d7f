#include "models/nn/fp32_products.h"

#include "models/nn/bf16_kernels.h"
#include "models/nn/cpu_products.h"
#include "models/nn/product_parts.h"
#include "models/nn/tiled_gemm.h"

namespace trainer::nn {
namespace {

/// Whether MKL isn't made for this CPU, or what AMX leaves to it is small.
bool find_uses() {
#if defined(__x86_64__)
  return (__builtin_cpu_is("amd") || has_amx()) && tile_kernels() != nullptr;
#else
  return false;
#endif
}

}  // namespace

bool uses_fp32_products() {
  static const bool uses = find_uses();
  return uses;
}

bool has_fp32_product(const at::Tensor& a) {
  return uses_fp32_products() && a.scalar_type() == at::kFloat;
}

void fp32_product(const at::Tensor& given_a, const at::Tensor& given_b, const at::Tensor& added, float beta,
                  float alpha, const at::Tensor& given_out) {
  constexpr int64_t kColumnUnit = 64;
  with_plain_operands(given_a, given_b, added, beta, given_out,
                      [&](const at::Tensor& a, const at::Tensor& b, const at::Tensor& out) {
                        const int64_t n = out.size(1), k = a.size(1);
                        for_each_part(out.size(0), n, k, kTileRows, kColumnUnit, [&](Extent rows, Extent columns) {
                          tiled_gemm(*tile_kernels(), rows.size(), columns.size(), k, alpha,
                                     strided<float>(a).at(rows.begin, 0), strided<float>(b).at(0, columns.begin), beta,
                                     out.data_ptr<float>() + rows.begin * n + columns.begin, n);
                        });
                      });
}

}  // namespace trainer::nn
