#include "models/nn/fp32_products.h"

#include <cstdlib>
#include <optional>
#include <string_view>

#include <ATen/ExpandUtils.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/addmm_cpu_dispatch.h>
#include <ATen/ops/mm_cpu_dispatch.h>
#include <torch/library.h>

namespace trainer::nn {
namespace {

// Below them, oneDNN's 10 us a call outweigh what it saves.
constexpr int64_t kLeastRows = 4, kLeastTerms = 32, kLeastOperations = 1 << 20;

/// oneDNN's x w^T (+ bias), for any strides.
using Linear = at::Tensor(const at::Tensor& x, const at::Tensor& w, const std::optional<at::Tensor>& bias,
                          std::string_view fused, c10::List<std::optional<at::Scalar>> scalars,
                          std::optional<std::string_view> algorithm);

const c10::TypedOperatorHandle<Linear>& linear_of_onednn() {
  static const auto found =
      c10::Dispatcher::singleton().findSchemaOrThrow("mkldnn::_linear_pointwise", "").typed<Linear>();
  return found;
}

at::Tensor product(const at::Tensor& a, const at::Tensor& b, const std::optional<at::Tensor>& bias = std::nullopt) {
  return linear_of_onednn().call(a, b.t(), bias, "none", c10::List<std::optional<at::Scalar>>(), std::nullopt);
}

bool is_large_fp32(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != at::kFloat || b.scalar_type() != at::kFloat || a.dim() != 2 || b.dim() != 2) return false;
  const int64_t m = a.size(0), k = a.size(1), n = b.size(1);
  return k == b.size(0) && m >= kLeastRows && n >= kLeastRows && k >= kLeastTerms && m * n * k >= kLeastOperations;
}

bool is_fp32_product(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
  return is_large_fp32(a, b) && out.scalar_type() == at::kFloat && out.dim() == 2 && out.size(0) == a.size(0) &&
         out.size(1) == b.size(1);
}

at::Tensor fp32_mm(const at::Tensor& a, const at::Tensor& b) {
  return is_large_fp32(a, b) ? product(a, b) : at::cpu::mm(a, b);
}

at::Tensor& fp32_mm_out(const at::Tensor& a, const at::Tensor& b, at::Tensor& out) {
  return is_fp32_product(out, a, b) ? out.copy_(product(a, b)) : at::cpu::mm_outf(a, b, out);
}

at::Tensor fp32_addmm(const at::Tensor& added, const at::Tensor& a, const at::Tensor& b, const at::Scalar& beta,
                      const at::Scalar& alpha) {
  const bool fits = is_large_fp32(a, b) && added.scalar_type() == at::kFloat &&
                    at::is_expandable_to(added.sizes(), {a.size(0), b.size(1)});
  if (!fits) return at::cpu::addmm(added, a, b, beta, alpha);
  const bool plain = alpha.to<double>() == 1 && beta.to<double>() == 1;
  if (plain && added.dim() == 1 && added.size(0) == b.size(1)) return product(a, b, added);
  at::Tensor out = product(a, b);
  if (alpha.to<double>() != 1) out.mul_(alpha);
  return beta.to<double>() == 0 ? out : out.add_(added, beta);
}

at::Tensor& fp32_addmm_(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Scalar& beta,
                        const at::Scalar& alpha) {
  if (!is_fp32_product(out, a, b)) return at::cpu::addmm_(out, a, b, beta, alpha);
  if (beta.to<double>() == 0) return out.copy_(product(a, b).mul_(alpha));
  if (beta.to<double>() != 1) out.mul_(beta);
  return out.add_(product(a, b), alpha);
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
         __builtin_cpu_supports("avx512dq") &&
         c10::Dispatcher::singleton().findSchema({"mkldnn::_linear_pointwise", ""}).has_value();
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
