#include "models/nn/fp32_products.h"

#include <cstdlib>
#include <string_view>

#include <ATen/ExpandUtils.h>
#include <ATen/ops/addmm_cpu_dispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm_cpu_dispatch.h>
#include <torch/library.h>

// oneDNN's product with a matrix added, for any strides: out = alpha * a b + beta * out. libtorch exports it without a
// header; null where it doesn't.
namespace at::native {
__attribute__((weak)) void mkldnn_matmul(const Tensor& a, const Tensor& b, const Tensor& out, float beta, float alpha);
}

namespace trainer::nn {
namespace {

// A smaller product takes less time than oneDNN's 9 us a call save. With few rows, two transposed operands cost it more
// than MKL.
constexpr int64_t kLeastOperations = 1 << 20, kLeastRowsOfTransposed = 64;

bool is_fp32_matrix(const at::Tensor& x) {
  return x.scalar_type() == at::kFloat && x.dim() == 2;
}

bool is_faster(const at::Tensor& a, const at::Tensor& b) {
  if (!is_fp32_matrix(a) || !is_fp32_matrix(b) || a.size(1) != b.size(0)) return false;
  if (a.size(0) < kLeastRowsOfTransposed && a.stride(1) != 1 && b.stride(1) != 1) return false;
  return a.size(0) * b.size(1) * a.size(1) >= kLeastOperations;
}

/// out = alpha * a b + beta * out; out is not read if beta is 0.
void add_product(const at::Tensor& a, const at::Tensor& b, float alpha, float beta, const at::Tensor& out) {
  at::native::mkldnn_matmul(a, b, out, beta, alpha);
}

bool is_faster_into(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
  return is_faster(a, b) && is_fp32_matrix(out) && out.is_contiguous() && out.size(0) == a.size(0) &&
         out.size(1) == b.size(1) && !out.is_alias_of(a) && !out.is_alias_of(b);
}

at::Tensor fp32_mm(const at::Tensor& a, const at::Tensor& b) {
  if (!is_faster(a, b)) return at::cpu::mm(a, b);
  const at::Tensor out = at::empty({a.size(0), b.size(1)}, a.options());
  add_product(a, b, 1, 0, out);
  return out;
}

at::Tensor& fp32_mm_out(const at::Tensor& a, const at::Tensor& b, at::Tensor& out) {
  if (!is_faster_into(out, a, b)) return at::cpu::mm_outf(a, b, out);
  add_product(a, b, 1, 0, out);
  return out;
}

at::Tensor fp32_addmm(const at::Tensor& added, const at::Tensor& a, const at::Tensor& b, const at::Scalar& beta,
                      const at::Scalar& alpha) {
  const bool fits = is_faster(a, b) && added.scalar_type() == at::kFloat &&
                    at::is_expandable_to(added.sizes(), {a.size(0), b.size(1)});
  if (!fits) return at::cpu::addmm(added, a, b, beta, alpha);
  const at::Tensor out = at::empty({a.size(0), b.size(1)}, a.options());
  if (beta.to<double>() != 0) out.copy_(added);
  add_product(a, b, alpha.to<float>(), beta.to<float>(), out);
  return out;
}

at::Tensor& fp32_addmm_(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Scalar& beta,
                        const at::Scalar& alpha) {
  if (!is_faster_into(out, a, b)) return at::cpu::addmm_(out, a, b, beta, alpha);
  add_product(a, b, alpha.to<float>(), beta.to<float>(), out);
  return out;
}

/// libtorch warns that an operator is replaced.
struct NoWarnings : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

torch::Library* replaced_fp32_operators() {
  NoWarnings silent;
  const c10::WarningUtils::WarningHandlerGuard guard(&silent);
  auto* const library = new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__, __LINE__);
  library->impl("mm", TORCH_FN(fp32_mm));
  library->impl("mm.out", TORCH_FN(fp32_mm_out));
  library->impl("addmm", TORCH_FN(fp32_addmm));
  library->impl("addmm_", TORCH_FN(fp32_addmm_));
  return library;
}

/// Whether MKL leaves this CPU's AVX-512 unused, and oneDNN is there to use it.
bool is_slow_fp32() {
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

void use_fp32_products() {
  // Never destroyed: that would take the operators away.
  static const torch::Library* const replaced = is_slow_fp32() ? replaced_fp32_operators() : nullptr;
  (void)replaced;
}

}  // namespace trainer::nn
