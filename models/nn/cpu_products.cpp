#include "models/nn/cpu_products.h"

#include <cstdlib>
#include <string_view>

#include <ATen/ExpandUtils.h>
#include <ATen/ops/addmm_cpu_dispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm_cpu_dispatch.h>
#include <torch/library.h>

#include "models/nn/bf16_gemm.h"
#include "models/nn/bf16_products.h"
#include "models/nn/fp32_products.h"
#include "models/nn/half_products.h"

namespace trainer::nn {
namespace {

/// out = alpha * a b + beta * added.
using Product = void(const at::Tensor& a, const at::Tensor& b, const at::Tensor& added, float beta, float alpha,
                     const at::Tensor& out);

/// Null where libtorch's own is used. That includes operands that don't fit together, about which it has the messages.
Product* product_for(const at::Tensor& a, const at::Tensor& b) {
  if (leaves_all_to_libtorch()) return nullptr;
  if (a.dim() != 2 || b.dim() != 2 || a.size(1) != b.size(0) || a.scalar_type() != b.scalar_type()) return nullptr;
  if (has_bf16_product(a, b)) return bf16_product;
  return has_half_product(a, b) ? half_product : has_fp32_product(a) ? fp32_product : nullptr;
}

bool has_size_of_product(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
  return out.dim() == 2 && out.size(0) == a.size(0) && out.size(1) == b.size(1) && out.scalar_type() == a.scalar_type();
}

at::Tensor mm(const at::Tensor& a, const at::Tensor& b) {
  Product* const product = product_for(a, b);
  if (product == nullptr) return at::cpu::mm(a, b);
  at::Tensor out = at::empty({a.size(0), b.size(1)}, a.options());
  product(a, b, {}, 0, 1, out);
  return out;
}

at::Tensor& mm_out(const at::Tensor& a, const at::Tensor& b, at::Tensor& out) {
  Product* const product = product_for(a, b);
  if (product == nullptr || !has_size_of_product(out, a, b)) return at::cpu::mm_outf(a, b, out);
  product(a, b, {}, 0, 1, out);
  return out;
}

at::Tensor addmm(const at::Tensor& added, const at::Tensor& a, const at::Tensor& b, const at::Scalar& beta,
                 const at::Scalar& alpha) {
  Product* const product = product_for(a, b);
  const bool fits = product != nullptr && added.scalar_type() == a.scalar_type() &&
                    at::is_expandable_to(added.sizes(), {a.size(0), b.size(1)});
  if (!fits) return at::cpu::addmm(added, a, b, beta, alpha);
  at::Tensor out = at::empty({a.size(0), b.size(1)}, a.options());
  product(a, b, added, beta.to<float>(), alpha.to<float>(), out);
  return out;
}

at::Tensor& addmm_(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Scalar& beta,
                   const at::Scalar& alpha) {
  Product* const product = product_for(a, b);
  if (product == nullptr || !has_size_of_product(out, a, b)) return at::cpu::addmm_(out, a, b, beta, alpha);
  product(a, b, out, beta.to<float>(), alpha.to<float>(), out);
  return out;
}

/// libtorch warns that an operator is replaced.
struct Silent : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

torch::Library* replaced_operators() {
  Silent silent;
  const c10::WarningUtils::WarningHandlerGuard guard(&silent);
  auto* const library = new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__, __LINE__);
  library->impl("mm", TORCH_FN(mm));
  library->impl("mm.out", TORCH_FN(mm_out));
  library->impl("addmm", TORCH_FN(addmm));
  library->impl("addmm_", TORCH_FN(addmm_));
  return library;
}

}  // namespace

bool leaves_all_to_libtorch() {
  static const bool leaves = [] {
    const char* const blas = std::getenv("TRAINER_BLAS");
    return blas != nullptr && std::string_view(blas) == "mkl";
  }();
  return leaves;
}

bool products_ignore_threads(at::ScalarType type) {
  return !leaves_all_to_libtorch() && uses_fp32_products() &&
         (type == at::kFloat || (type == at::kBFloat16 && bf16_multiply_for(1) != nullptr));
}

void use_cpu_products() {
  // Never destroyed: that would take the operators away.
  [[gnu::used]] static const torch::Library* const replaced = replaced_operators();
}

}  // namespace trainer::nn
