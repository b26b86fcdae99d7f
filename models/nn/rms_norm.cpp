#include "models/nn/rms_norm.h"

#include <cmath>

#include <ATen/Dispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "models/nn/device/norms.h"
#include "models/nn/device/rms_norm.h"
#include "models/nn/kernel.h"
#include "models/nn/parallel.h"
#include "models/nn/reference/reference.h"
#include "models/nn/rounded.h"

namespace trainer::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Rows with result dtype T; `twice`: rounded to T before the weight too.
template <class T, bool twice>
struct Rows {
  TRAINER_KERNEL static void forward(const float* x, const float* weight, float eps, int64_t rows, int64_t width,
                                     T* out, float* scales) {
    for (int64_t r = 0; r < rows; ++r) {
      const float* const row = x + r * width;
      float sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t i = 0; i < width; ++i) sum += row[i] * row[i];
      const float scale = 1.0F / std::sqrt(sum / static_cast<float>(width) + eps);
      scales[r] = scale;
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) {
        const float plain = row[i] * scale;
        out[r * width + i] = rounded<T>((twice ? static_cast<float>(rounded<T>(plain)) : plain) * weight[i]);
      }
    }
  }
};

// dx = s (w g - x s^2 mean(w g x)).
TRAINER_KERNEL void backward_rows(const float* grad, const float* x, const float* weight, const float* scales,
                                  int64_t rows, int64_t width, float* dx) {
  for (int64_t r = 0; r < rows; ++r) {
    const float *const g = grad + r * width, *const row = x + r * width;
    const float s = scales[r];
    float dot = 0;
#pragma omp simd reduction(+ : dot)
    for (int64_t i = 0; i < width; ++i) dot += g[i] * weight[i] * row[i];
    const float pull = dot * s * s / static_cast<float>(width);
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) dx[r * width + i] = s * (g[i] * weight[i] - row[i] * pull);
  }
}

// dweight += g x s, of the columns from `first` on.
TRAINER_KERNEL void add_weight_gradient(const float* grad, const float* x, const float* scales, int64_t rows,
                                        int64_t width, int64_t first, int64_t columns, float* dweight) {
  for (int64_t r = 0; r < rows; ++r) {
    const float *const g = grad + r * width + first, *const row = x + r * width + first;
    const float s = scales[r];
#pragma omp simd
    for (int64_t i = 0; i < columns; ++i) dweight[first + i] += g[i] * row[i] * s;
  }
}

struct RmsNormFunction : torch::autograd::Function<RmsNormFunction> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x_in, const at::Tensor& weight, double eps,
                            at::ScalarType out_dtype, RmsRounding rounding) {
    const auto x = x_in.to(at::kFloat).contiguous();
    const int64_t width = x.size(-1), rows = x.numel() / width;
    at::Tensor out = at::empty_like(x, x.options().dtype(out_dtype)), scales = at::empty({rows}, x.options());
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, out_dtype, "rms_norm", [&] {
      const auto forward =
          rounding == RmsRounding::kOnce ? Rows<scalar_t, false>::forward : Rows<scalar_t, true>::forward;
      parallel_for(0, rows_to_compute(x, rows), 64, [&](int64_t first, int64_t last) {
        forward(x.const_data_ptr<float>() + first * width, weight.const_data_ptr<float>(), static_cast<float>(eps),
                last - first, width, out.data_ptr<scalar_t>() + first * width, scales.data_ptr<float>() + first);
      });
    });
    ctx->save_for_backward({x_in, weight, scales});
    return out;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const auto &weight = saved[1], &scales = saved[2];
    const auto x = saved[0].to(at::kFloat).contiguous(), grad = grads[0].to(at::kFloat).contiguous();
    const int64_t width = x.size(-1), rows = x.numel() / width;
    at::Tensor dx = at::empty_like(x);
    at::Tensor dweight = ctx->needs_input_grad(1) ? at::zeros_like(weight) : at::Tensor();
    const int64_t computed = rows_to_compute(x, rows);
    const float *const g = grad.const_data_ptr<float>(), *const from = x.const_data_ptr<float>(),
                       *const scale = scales.const_data_ptr<float>();
    parallel_for(0, computed, 64, [&](int64_t first, int64_t last) {
      backward_rows(g + first * width, from + first * width, weight.const_data_ptr<float>(), scale + first,
                    last - first, width, dx.data_ptr<float>() + first * width);
    });
    // Threads share the columns: the sums over rows keep their order, so results do not depend on threads.
    if (dweight.defined())
      parallel_for(0, computed > 0 ? width : 0, 64, [&](int64_t first, int64_t last) {
        add_weight_gradient(g, from, scale, computed, width, first, last - first, dweight.data_ptr<float>());
      });
    return {dx.to(saved[0].scalar_type()), dweight, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

RmsNormAndInput rms_norm_and_input(const at::Tensor& x, const at::Tensor& weight, double eps, at::ScalarType out_dtype,
                                   RmsRounding rounding) {
  const at::Tensor wide = weight.to(at::kFloat);
  if (const DeviceKernels* const kernels = device::kernels_of_rms_norm(x, out_dtype))
    return device::rms_norm_and_input(*kernels, x, wide, eps, out_dtype, rounding);
  if (runs_reference(x)) return {device::rms_norm(x, wide, eps, out_dtype, rounding), x};
  return {RmsNormFunction::apply(x, wide, eps, out_dtype, rounding), x};
}

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps, at::ScalarType out_dtype,
                    RmsRounding rounding) {
  return rms_norm_and_input(x, weight, eps, out_dtype, rounding).norm;
}

}  // namespace trainer::nn
