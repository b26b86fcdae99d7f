#include "models/nn/layer_norm.h"

#include <cmath>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "models/nn/device/norms.h"
#include "models/nn/kernel.h"
#include "models/nn/parallel.h"
#include "models/nn/reference/reference.h"

namespace trainer::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// `bias` may be null. The variance is computed from the differences to the mean, which avoids cancellation.
TRAINER_KERNEL void forward_rows(const float* x, const float* weight, const float* bias, float eps, int64_t rows,
                                 int64_t width, float* out, float* means, float* scales) {
  const auto n = static_cast<float>(width);
  for (int64_t r = 0; r < rows; ++r) {
    const float* const row = x + r * width;
    float* const to = out + r * width;
    float sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < width; ++i) sum += row[i];
    const float mean = sum / n;
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < width; ++i) squares += (row[i] - mean) * (row[i] - mean);
    const float scale = 1.0F / std::sqrt(squares / n + eps);
    means[r] = mean, scales[r] = scale;
    if (bias != nullptr) {
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) to[i] = (row[i] - mean) * scale * weight[i] + bias[i];
    } else {
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) to[i] = (row[i] - mean) * scale * weight[i];
    }
  }
}

// With y = (x - mean) s: dx = s (w g - mean(w g) - y mean(w g y)).
TRAINER_KERNEL void backward_rows(const float* grad, const float* x, const float* weight, const float* means,
                                  const float* scales, int64_t rows, int64_t width, float* dx) {
  const auto n = static_cast<float>(width);
  for (int64_t r = 0; r < rows; ++r) {
    const float *const g = grad + r * width, *const row = x + r * width;
    float* const to = dx + r * width;
    const float s = scales[r], mean = means[r];
    float sum = 0, dot = 0;
#pragma omp simd reduction(+ : sum, dot)
    for (int64_t i = 0; i < width; ++i) {
      sum += g[i] * weight[i];
      dot += g[i] * weight[i] * (row[i] - mean);
    }
    const float shift = sum / n, pull = dot * s * s / n;
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) to[i] = s * (g[i] * weight[i] - shift - (row[i] - mean) * pull);
  }
}

// dweight += g y and dbias += g, of the columns from `first` on; either may be null.
TRAINER_KERNEL void add_weight_gradients(const float* grad, const float* x, const float* means, const float* scales,
                                         int64_t rows, int64_t width, int64_t first, int64_t columns, float* dweight,
                                         float* dbias) {
  for (int64_t r = 0; r < rows; ++r) {
    const float *const g = grad + r * width + first, *const row = x + r * width + first;
    const float s = scales[r], mean = means[r];
    if (dweight != nullptr) {
#pragma omp simd
      for (int64_t i = 0; i < columns; ++i) dweight[first + i] += g[i] * (row[i] - mean) * s;
    }
    if (dbias != nullptr) {
#pragma omp simd
      for (int64_t i = 0; i < columns; ++i) dbias[first + i] += g[i];
    }
  }
}

struct LayerNormFunction : torch::autograd::Function<LayerNormFunction> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x_in, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, double eps, at::ScalarType out_dtype) {
    const auto x = x_in.contiguous();
    const int64_t width = x.size(-1), rows = x.numel() / width;
    at::Tensor out = at::empty_like(x), means = at::empty({rows}, x.options()), scales = at::empty_like(means);
    const float* const b = bias ? bias->const_data_ptr<float>() : nullptr;
    parallel_for(0, rows_to_compute(x, rows), 64, [&](int64_t first, int64_t last) {
      forward_rows(x.const_data_ptr<float>() + first * width, weight.const_data_ptr<float>(), b,
                   static_cast<float>(eps), last - first, width, out.data_ptr<float>() + first * width,
                   means.data_ptr<float>() + first, scales.data_ptr<float>() + first);
    });
    ctx->save_for_backward({x, weight, means, scales});
    ctx->saved_data["bias"] = bias.has_value();  // an input that isn't given has no index
    return out.to(out_dtype);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const auto &x = saved[0], &weight = saved[1], &means = saved[2], &scales = saved[3];
    const auto grad = grads[0].to(at::kFloat).contiguous();
    const int64_t width = x.size(-1), rows = x.numel() / width;
    at::Tensor dx = at::empty_like(x);
    at::Tensor dweight = ctx->needs_input_grad(1) ? at::zeros_like(weight) : at::Tensor(),
               dbias =
                   ctx->saved_data["bias"].toBool() && ctx->needs_input_grad(2) ? at::zeros_like(weight) : at::Tensor();
    const int64_t computed = rows_to_compute(x, rows);
    const float *const g = grad.const_data_ptr<float>(), *const from = x.const_data_ptr<float>(),
                       *const mean = means.const_data_ptr<float>(), *const scale = scales.const_data_ptr<float>();
    parallel_for(0, computed, 64, [&](int64_t first, int64_t last) {
      backward_rows(g + first * width, from + first * width, weight.const_data_ptr<float>(), mean + first,
                    scale + first, last - first, width, dx.data_ptr<float>() + first * width);
    });
    // Threads share the columns: the sums over rows keep their order, so results do not depend on threads.
    if (dweight.defined() || dbias.defined())
      parallel_for(0, computed > 0 ? width : 0, 64, [&](int64_t first, int64_t last) {
        add_weight_gradients(g, from, mean, scale, computed, width, first, last - first,
                             dweight.defined() ? dweight.data_ptr<float>() : nullptr,
                             dbias.defined() ? dbias.data_ptr<float>() : nullptr);
      });
    return {dx, dweight, dbias, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, double eps,
                      at::ScalarType out_dtype) {
  const at::Tensor scale = weight.to(at::kFloat), shift = bias.defined() ? bias.to(at::kFloat) : bias;
  if (runs_reference(x)) return device::layer_norm(x, scale, shift, eps, out_dtype);
  return LayerNormFunction::apply(x, scale, shift.defined() ? std::optional<at::Tensor>(shift) : std::nullopt, eps,
                                  out_dtype);
}

}  // namespace trainer::nn
