#include "models/nn/device/dropout.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "models/nn/saved.h"

namespace trainer::nn::device {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void run_dropout(const DeviceKernels& kernels, const at::Tensor& x, const at::Tensor& residual,
                 const LayoutDraws& draws, const at::Tensor& out) {
  kernels.dropout(*element_type(x.scalar_type()), address_of(x), *element_type(out.scalar_type()), address_of(residual),
                  draws.rows(), x.size(0), x.size(1), address_in(out), stream_of(kernels, x));
}

struct DeviceDropout : torch::autograd::Function<DeviceDropout> {
  struct State {
    const DeviceKernels* kernels;
    DropoutRule rule;
    at::ScalarType dtype;
    bool has_residual;
  };

  static at::Tensor forward(AutogradContext* ctx, const std::optional<at::Tensor>& residual, const at::Tensor& given,
                            const DropoutRule& rule, const LayoutPtr& layout, const DeviceKernels* kernels) {
    const LayoutDraws draws = draws_of(rule, *layout, given.device());
    ctx->save_for_backward({draws.sample_index, draws.token});
    keep<State>(ctx, {kernels, rule, given.scalar_type(), residual.has_value()});
    const at::Tensor x = given.contiguous(), base = residual ? residual->contiguous() : at::Tensor();
    at::Tensor out = at::empty_like(base.defined() ? base : x);
    run_dropout(*kernels, x, base, draws, out);
    return out;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto& state = kept<State>(ctx);
    const auto saved = ctx->get_saved_variables();
    const at::Tensor grad = grads[0].contiguous();
    const at::Tensor dx = at::empty(grad.sizes(), grad.options().dtype(state.dtype));
    run_dropout(*state.kernels, grad, {}, {saved[0], saved[1], state.rule}, dx);
    return {state.has_residual ? grads[0] : at::Tensor(), dx, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

bool supports_dropout(const std::optional<at::Tensor>& residual, const at::Tensor& x) {
  const at::ScalarType in = x.scalar_type(), out = residual ? residual->scalar_type() : in;
  return element_type(in) && element_type(out) && (in == out || out == at::kFloat);
}

at::Tensor dropout_add(const DeviceKernels& kernels, const std::optional<at::Tensor>& residual, const at::Tensor& x,
                       const DropoutRule& rule, const LayoutPtr& layout) {
  return DeviceDropout::apply(residual, x, rule, layout, &kernels);
}

at::Tensor dropped(const DeviceKernels& kernels, const at::Tensor& given, const LayoutDraws& draws) {
  const at::Tensor x = given.contiguous();
  at::Tensor out = at::empty_like(x);
  run_dropout(kernels, x, {}, draws, out);
  return out;
}

at::Tensor kept_mask(const DeviceKernels& kernels, const DropoutRule& rule, const Layout& layout, const at::Tensor& x) {
  const LayoutDraws draws = draws_of(rule, layout, x.device());
  at::Tensor kept = at::empty({layout.tokens(), x.size(-1)}, x.options().dtype(at::kBool));
  kernels.draw_mask(draws.rows(), kept.size(0), kept.size(1), static_cast<bool*>(address_in(kept)),
                    stream_of(kernels, x));
  return kept;
}

}  // namespace trainer::nn::device
