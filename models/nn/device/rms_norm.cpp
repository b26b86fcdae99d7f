#include "models/nn/device/rms_norm.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "models/nn/device/device_kernels.h"
#include "models/nn/saved.h"

namespace trainer::nn::device {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// In narrower rows, the gradient is largely what remains of a difference, below the rounding of the normalized row.
constexpr int64_t kLeastWidth = 32;
constexpr int64_t kRowsOfPart = 64;  // whose part of the weight's gradient a thread sums

struct KernelRmsNorm : torch::autograd::Function<KernelRmsNorm> {
  struct State {
    const DeviceKernels* kernels;
    at::ScalarType x_dtype;  // what is saved has another one if it is the normalized rows
  };

  /// The norm, and x itself. `saves`: backward may follow.
  static variable_list forward(AutogradContext* ctx, const at::Tensor& given, const at::Tensor& weight, double eps,
                               at::ScalarType out_dtype, RmsRounding rounding, const DeviceKernels* kernels,
                               bool saves) {
    const at::Tensor x = given.contiguous();
    const int64_t width = x.size(-1), rows = x.numel() / width;
    const at::Tensor out = at::empty_like(x, x.options().dtype(out_dtype)),
                     scales = at::empty({rows}, x.options().dtype(at::kFloat));
    at::Tensor normalized;
    if (saves && out.element_size() < x.element_size() && width >= kLeastWidth) normalized = at::empty_like(out);
    kernels->rms_norm(*element_type(x.scalar_type()), address_of(x), address_as<float>(weight), static_cast<float>(eps),
                      rounding == RmsRounding::kBeforeWeight, *element_type(out_dtype), rows, width, address_in(out),
                      address_in(normalized), static_cast<float*>(address_in(scales)), stream_of(*kernels, x));
    ctx->save_for_backward({normalized.defined() ? normalized : x, weight, scales});
    ctx->set_materialize_grads(false);
    keep<State>(ctx, {kernels, x.scalar_type()});
    return {out, given.detach()};
  }

  /// Of the unrounded value, with either rounding.
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &scales = saved[2];
    const at::Tensor base = grads[1].defined() ? grads[1].contiguous() : at::Tensor();
    if (!grads[0].defined()) return {base, {}, {}, {}, {}, {}, {}};
    const at::Tensor grad = grads[0].contiguous();
    const int64_t width = x.size(-1), rows = x.numel() / width;
    const auto& [kernels, x_dtype] = kept<State>(ctx);
    const bool is_normalized = x.scalar_type() != x_dtype;
    const ElementType of_grad = *element_type(grad.scalar_type());
    at::Tensor dx = at::empty_like(x, x.options().dtype(x_dtype)), dweight;
    kernels->rms_norm_backward(of_grad, address_of(grad), *element_type(x_dtype),
                               is_normalized ? nullptr : address_of(x), is_normalized ? address_of(x) : nullptr,
                               address_of(base), address_as<float>(weight), address_as<float>(scales), rows, width,
                               address_in(dx), stream_of(*kernels, x));
    if (ctx->needs_input_grad(1)) {
      const at::Tensor parts = at::empty({(rows + kRowsOfPart - 1) / kRowsOfPart, width}, scales.options());
      kernels->rms_norm_weight_gradient(of_grad, address_of(grad), *element_type(x.scalar_type()), address_of(x),
                                        is_normalized ? nullptr : address_as<float>(scales), rows, width, kRowsOfPart,
                                        static_cast<float*>(address_in(parts)), stream_of(*kernels, x));
      dweight = parts.sum(0);
    }
    return {dx, dweight, {}, {}, {}, {}, {}};
  }
};

}  // namespace

const DeviceKernels* kernels_of_rms_norm(const at::Tensor& x, at::ScalarType out_dtype) {
  const at::ScalarType dtype = x.scalar_type();
  const bool supported = element_type(dtype) && element_type(out_dtype) &&
                         (dtype == out_dtype || dtype == at::kFloat || out_dtype == at::kFloat);
  return supported && x.numel() > 0 ? device_kernels(x) : nullptr;
}

RmsNormAndInput rms_norm_and_input(const DeviceKernels& kernels, const at::Tensor& x, const at::Tensor& weight,
                                   double eps, at::ScalarType out_dtype, RmsRounding rounding) {
  const bool saves = at::GradMode::is_enabled() && (x.requires_grad() || weight.requires_grad());
  const variable_list both = KernelRmsNorm::apply(x, weight, eps, out_dtype, rounding, &kernels, saves);
  return {both[0], both[1]};
}

}  // namespace trainer::nn::device
