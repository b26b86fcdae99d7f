#include "models/nn/amx_products.h"

#include <algorithm>

#include "models/nn/amx_gemm.h"
#include "models/nn/product_parts.h"

namespace trainer::nn {
namespace {

/// oneDNN compiles a kernel for each new shape, which takes time and memory. Blocks of texts, whose rows have few
/// shapes, are worth it: there oneDNN is faster by a tenth.
bool is_for_onednn(const at::Tensor& a) {
  constexpr int64_t kUnit = 64, kLeastRows = 512;
  return a.scalar_type() == at::kBFloat16 && a.stride(1) == 1 && a.size(0) % kUnit == 0 && a.size(0) >= kLeastRows;
}

/// With fewer rows, columns or terms, packing costs more than the product, of fp32 the more, the more parts it has.
int64_t least_size(at::ScalarType type) {
  constexpr int64_t kOfParts[] = {32, 64, 128};
  return kOfParts[type == at::kFloat ? amx_parts() - 1 : 0];
}

}  // namespace

bool has_amx_product(const at::Tensor& a, const at::Tensor& b) {
  static const bool has = has_amx();
  const at::ScalarType type = a.scalar_type();
  return has && (type == at::kFloat || type == at::kBFloat16) &&
         std::min({a.size(0), a.size(1), b.size(1)}) >= least_size(type) && !is_for_onednn(a);
}

void amx_product(const at::Tensor& given_a, const at::Tensor& given_b, const at::Tensor& added, float beta, float alpha,
                 const at::Tensor& given_out) {
  with_plain_operands(given_a, given_b, added, beta, given_out,
                      [&](const at::Tensor& a, const at::Tensor& b, const at::Tensor& out) {
                        const int64_t m = out.size(0), n = out.size(1), k = a.size(1);
                        if (out.scalar_type() == at::kFloat)
                          amx_gemm(amx_multiply, amx_parts(), m, n, k, alpha, strided<float>(a), strided<float>(b),
                                   beta, out.data_ptr<float>(), n);
                        else
                          amx_gemm(amx_multiply, m, n, k, alpha, strided<c10::BFloat16>(a), strided<c10::BFloat16>(b),
                                   beta, out.data_ptr<c10::BFloat16>(), n);
                      });
}

}  // namespace trainer::nn
