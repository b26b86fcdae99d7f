#include "models/nn/device/norms.h"

#include <array>
#include <atomic>

#include <ATen/TensorOperators.h>
#include <ATen/ops/_fused_rms_norm.h>
#include <ATen/ops/_fused_rms_norm_backward.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <torch/csrc/autograd/custom_function.h>

#include "models/nn/reference/norms.h"
#include "models/nn/reference/reference.h"

namespace trainer::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

std::array<std::atomic<bool>, c10::COMPILE_TIME_MAX_DEVICE_TYPES> types_with_fused_norms{};

/// A dry run on the meta device stands for a GPU: libtorch's operators for it come with every build.
bool runs_fused_norm(const at::Tensor& x) {
  if (forces_reference() || x.numel() == 0) return false;
  return x.is_meta() || types_with_fused_norms.at(static_cast<size_t>(x.device().type()));
}

at::Tensor wide(const at::Tensor& x) {
  return x.to(at::kFloat).contiguous();
}

struct FusedRmsNorm : torch::autograd::Function<FusedRmsNorm> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight, double eps,
                            at::ScalarType out_dtype, RmsRounding rounding) {
    const int64_t width = x.size(-1);
    const bool once = rounding == RmsRounding::kOnce;
    const auto [out, scales] =
        at::_fused_rms_norm(wide(x), {width}, once ? std::optional<at::Tensor>(weight) : std::nullopt, eps);
    ctx->save_for_backward({x, weight, scales});
    return once ? out.to(out_dtype) : (out.to(out_dtype) * weight).to(out_dtype);
  }

  /// Of the unrounded value, with either rounding.
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1];
    const auto [dx, dweight] = at::_fused_rms_norm_backward(wide(grads[0]), wide(x), {x.size(-1)}, saved[2], weight,
                                                            {true, ctx->needs_input_grad(1)});
    return {dx.to(x.scalar_type()), dweight, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

struct FusedLayerNorm : torch::autograd::Function<FusedLayerNorm> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, double eps, at::ScalarType out_dtype) {
    const auto [out, means, scales] = at::native_layer_norm(wide(x), {x.size(-1)}, weight, bias, eps);
    ctx->save_for_backward({x, weight, bias.value_or(at::Tensor()), means, scales});
    return out.to(out_dtype);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &bias = saved[2];
    const auto [dx, dweight, dbias] = at::native_layer_norm_backward(
        wide(grads[0]), wide(x), {x.size(-1)}, saved[3], saved[4], weight,
        bias.defined() ? std::optional<at::Tensor>(bias) : std::nullopt,
        {true, ctx->needs_input_grad(1), bias.defined() && ctx->needs_input_grad(2)});
    return {dx.to(x.scalar_type()), dweight, dbias, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

void use_fused_norms(c10::DeviceType type, bool has) {
  types_with_fused_norms.at(static_cast<size_t>(type)) = has;
}

namespace device {

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps, at::ScalarType out_dtype,
                    RmsRounding rounding) {
  if (!runs_fused_norm(x)) return reference::rms_norm(x, weight, eps, out_dtype, rounding);
  return FusedRmsNorm::apply(x, weight, eps, out_dtype, rounding);
}

at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, double eps,
                      at::ScalarType out_dtype) {
  if (!runs_fused_norm(x)) return reference::layer_norm(x, weight, bias, eps, out_dtype);
  return FusedLayerNorm::apply(x, weight, bias.defined() ? std::optional<at::Tensor>(bias) : std::nullopt, eps,
                               out_dtype);
}

}  // namespace device
}  // namespace trainer::nn
