#include "models/nn/bf16_products.h"

#include <algorithm>

#include "models/nn/bf16_gemm.h"
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
/// Products of bf16 numbers in AVX-512 take longer, and those of LoRA's few columns aren't worth new kernels of oneDNN.
int64_t least_size(at::ScalarType type, int parts) {
  constexpr int64_t kOfParts[] = {32, 64, 128}, kInAvx512 = 8;
  return type == at::kBFloat16 && !has_amx() ? kInAvx512 : kOfParts[parts - 1];
}

}  // namespace

bool has_bf16_product_of_fp32(int64_t m, int64_t n, int64_t k) {
  const int parts = bf16_parts();
  return bf16_multiply_for(parts) != nullptr && std::min({m, n, k}) >= least_size(at::kFloat, parts);
}

bool has_bf16_product(const at::Tensor& a, const at::Tensor& b) {
  const int64_t m = a.size(0), n = b.size(1), k = a.size(1);
  if (a.scalar_type() == at::kFloat) return has_bf16_product_of_fp32(m, n, k);
  return a.scalar_type() == at::kBFloat16 && bf16_multiply_for(1) != nullptr &&
         std::min({m, n, k}) >= least_size(at::kBFloat16, 1) && !is_for_onednn(a);
}

void bf16_product(const at::Tensor& given_a, const at::Tensor& given_b, const at::Tensor& added, float beta,
                  float alpha, const at::Tensor& given_out) {
  with_plain_operands(given_a, given_b, added, beta, given_out,
                      [&](const at::Tensor& a, const at::Tensor& b, const at::Tensor& out) {
                        const int64_t m = out.size(0), n = out.size(1), k = a.size(1);
                        const int parts = out.scalar_type() == at::kFloat ? bf16_parts() : 1;
                        Bf16Multiply& multiply = *bf16_multiply_for(parts);
                        if (out.scalar_type() == at::kFloat)
                          bf16_gemm(multiply, parts, m, n, k, alpha, strided<float>(a), strided<float>(b), beta,
                                    out.data_ptr<float>(), n);
                        else
                          bf16_gemm(multiply, m, n, k, alpha, strided<c10::BFloat16>(a), strided<c10::BFloat16>(b),
                                    beta, out.data_ptr<c10::BFloat16>(), n);
                      });
}

}  // namespace trainer::nn
