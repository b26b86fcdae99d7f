#include "models/nn/soft_cap.h"

#include <ATen/Dispatch.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/tanh.h>
#include <torch/csrc/autograd/custom_function.h>

#include "models/nn/fast_math.h"
#include "models/nn/kernel.h"
#include "models/nn/parallel.h"
#include "models/nn/reference/recompute.h"
#include "models/nn/reference/reference.h"
#include "models/nn/rounded.h"

namespace trainer::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

template <class T>
struct Cap {
  TRAINER_KERNEL static void values(const T* x, float cap, int64_t n, T* out) {
    const float inverse = 1.0F / cap;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] = rounded<T>(cap * precise_tanh(static_cast<float>(x[i]) * inverse));
  }
  /// grad times the slope 1 - tanh^2, from the capped value.
  TRAINER_KERNEL static void backward(const T* grad, const T* out, float cap, int64_t n, T* dx) {
    const float inverse = 1.0F / cap;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      const float t = static_cast<float>(out[i]) * inverse;
      dx[i] = rounded<T>(static_cast<float>(grad[i]) * (1.0F - t * t));
    }
  }
};

/// Calls f(first element, elements) for stretches of all elements of `x`.
template <class F>
void for_each_stretch(const at::Tensor& x, const F& f) {
  constexpr int64_t kStretch = 4096;
  parallel_for(0, rows_to_compute(x, x.numel()), kStretch,
                   [&](int64_t first, int64_t last) { f(first, last - first); });
}

/// `out` may be x.
void cap_tensor(const at::Tensor& x, double cap, const at::Tensor& out) {
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "soft_cap", [&] {
    for_each_stretch(x, [&](int64_t at, int64_t n) {
      Cap<scalar_t>::values(x.const_data_ptr<scalar_t>() + at, static_cast<float>(cap), n,
                            out.data_ptr<scalar_t>() + at);
    });
  });
}

/// `dx` may be grad.
void cap_tensor_backward(const at::Tensor& grad, const at::Tensor& capped, double cap, const at::Tensor& dx) {
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, capped.scalar_type(), "soft_cap", [&] {
    for_each_stretch(capped, [&](int64_t at, int64_t n) {
      Cap<scalar_t>::backward(grad.const_data_ptr<scalar_t>() + at, capped.const_data_ptr<scalar_t>() + at,
                              static_cast<float>(cap), n, dx.data_ptr<scalar_t>() + at);
    });
  });
}

struct SoftCap : torch::autograd::Function<SoftCap> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& given, double cap) {
    const at::Tensor x = given.contiguous();
    at::Tensor out = at::empty_like(x);
    cap_tensor(x, cap, out);
    ctx->save_for_backward({out});
    ctx->saved_data["cap"] = cap;
    return out;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const at::Tensor out = ctx->get_saved_variables()[0];
    at::Tensor dx = at::empty_like(out);
    cap_tensor_backward(grads[0].contiguous(), out, ctx->saved_data["cap"].toDouble(), dx);
    return {dx, at::Tensor()};
  }
};

}  // namespace

at::Tensor soft_cap(const at::Tensor& x, double cap) {
  if (!runs_reference(x)) return SoftCap::apply(x, cap);
  return reference::recompute({x}, [cap](const std::vector<at::Tensor>& in) {
    return (at::tanh(in[0].to(at::kFloat) / cap) * cap).to(in[0].scalar_type());
  });
}

void soft_cap_(const at::Tensor& x, double cap) {
  if (!runs_reference(x)) return cap_tensor(x, cap, x);
  const at::Tensor wide = x.to(at::kFloat);
  wide.div_(cap).tanh_().mul_(cap);
  if (!wide.is_same(x)) x.copy_(wide);
}

void soft_cap_backward_(const at::Tensor& grad, const at::Tensor& capped, double cap) {
  if (!runs_reference(grad)) return cap_tensor_backward(grad, capped, cap, grad);
  const at::Tensor tanh = capped.to(at::kFloat, /*non_blocking=*/false, /*copy=*/true).div_(cap);
  grad.mul_(tanh.mul_(tanh).neg_().add_(1));
}

}  // namespace trainer::nn
