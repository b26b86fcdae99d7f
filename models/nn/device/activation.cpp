#include "models/nn/device/activation.h"

#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "models/nn/saved.h"

namespace trainer::nn::device {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct DeviceActivate : torch::autograd::Function<DeviceActivate> {
  struct State {
    const DeviceKernels* kernels;
    Activation activation;
    DropoutRule rule;
  };

  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& gate_in, const std::optional<at::Tensor>& up_in,
                            Activation activation, const DropoutRule& rule, const LayoutPtr& layout,
                            const DeviceKernels* kernels) {
    const at::Tensor gate = gate_in.contiguous(), up = up_in ? up_in->contiguous() : at::Tensor();
    const LayoutDraws draws = draws_of(rule, *layout, gate.device());
    ctx->save_for_backward({gate, up, draws.sample_index, draws.token});
    keep<State>(ctx, {kernels, activation, rule});
    at::Tensor out = at::empty_like(gate);
    kernels->activate(*element_type(gate.scalar_type()), activation, address_of(gate), address_of(up), draws.rows(),
                      gate.size(0), gate.size(1), address_in(out), stream_of(*kernels, gate));
    return out;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &gate = saved[0], &up = saved[1], grad = grads[0].contiguous();
    const State& state = kept<State>(ctx);
    const LayoutDraws draws{saved[2], saved[3], state.rule};
    at::Tensor dgate = at::empty_like(gate), dup = up.defined() ? at::empty_like(up) : at::Tensor();
    state.kernels->activate_backward(*element_type(gate.scalar_type()), state.activation, address_of(grad),
                                     address_of(gate), address_of(up), draws.rows(), gate.size(0), gate.size(1),
                                     address_in(dgate), address_in(dup), stream_of(*state.kernels, gate));
    return {dgate, dup, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor activate(const DeviceKernels& kernels, const at::Tensor& gate, const std::optional<at::Tensor>& up,
                    Activation activation, const DropoutRule& rule, const LayoutPtr& layout) {
  return DeviceActivate::apply(gate, up, activation, rule, layout, &kernels);
}

}  // namespace trainer::nn::device
