#include "models/nn/device/rotation.h"

#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "models/nn/saved.h"

namespace trainer::nn::device {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor run_rotate(const DeviceKernels& kernels, const at::Tensor& given, const at::Tensor& table, float direction) {
  const at::Tensor x = given.contiguous();
  at::Tensor out = at::empty_like(x);
  kernels.rotate(*element_type(x.scalar_type()), address_of(x), address_as<float>(table), direction, x.size(0),
                 x.size(1) / table.size(1), table.size(1) / 2, address_in(out), stream_of(kernels, x));
  return out;
}

struct DeviceRotate : torch::autograd::Function<DeviceRotate> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& given,
                            const DeviceKernels* kernels) {
    const at::Tensor table = given.contiguous();
    ctx->save_for_backward({table});
    keep(ctx, kernels);
    return run_rotate(*kernels, x, table, 1);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto* const kernels = kept<const DeviceKernels*>(ctx);
    return {run_rotate(*kernels, grads[0], ctx->get_saved_variables()[0], -1), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor rotate(const DeviceKernels& kernels, const at::Tensor& x, const at::Tensor& table) {
  return DeviceRotate::apply(x, table, &kernels);
}

}  // namespace trainer::nn::device
