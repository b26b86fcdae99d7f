#include "models/nn/fp32_products.h"

#include <cstdlib>
#include <string_view>

#include <ATen/ops/empty.h>

// oneDNN's product with a matrix added: out = alpha * a b + beta * out. libtorch exports it without a header; null
// where it doesn't.
namespace at::native {
__attribute__((weak)) void mkldnn_matmul(const Tensor& a, const Tensor& b, const Tensor& out, float beta, float alpha);
}

namespace trainer::nn {
namespace {

// A smaller product takes less time than oneDNN's 9 us a call save. With few rows, two transposed operands cost it more
// than MKL.
constexpr int64_t kLeastOperations = 1 << 20, kLeastRowsOfTransposed = 64;

/// Whether MKL leaves this CPU's AVX-512 unused, and oneDNN is there to use it.
bool find_is_slow() {
#if defined(__x86_64__)
  const char* const blas = std::getenv("TRAINER_BLAS");
  if (blas != nullptr && std::string_view(blas) == "mkl") return false;
  return __builtin_cpu_is("amd") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq") && &at::native::mkldnn_matmul != nullptr;
#else
  return false;
#endif
}

}  // namespace

bool has_fp32_product(const at::Tensor& a, const at::Tensor& b) {
  static const bool is_slow = find_is_slow();
  if (!is_slow || a.scalar_type() != at::kFloat) return false;
  if (a.size(0) < kLeastRowsOfTransposed && a.stride(1) != 1 && b.stride(1) != 1) return false;
  return a.size(0) * b.size(1) * a.size(1) >= kLeastOperations;
}

void fp32_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& added, float beta, float alpha,
                  const at::Tensor& out) {
  if (!out.is_contiguous() || out.is_alias_of(a) || out.is_alias_of(b)) {
    const at::Tensor rows = at::empty(out.sizes(), out.options());
    fp32_product(a, b, added, beta, alpha, rows);
    out.copy_(rows);
    return;
  }
  if (beta != 0 && !out.is_same(added)) out.copy_(added);
  at::native::mkldnn_matmul(a, b, out, beta, alpha);
}

}  // namespace trainer::nn
