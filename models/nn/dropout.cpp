#include "models/nn/dropout.h"

#include <cmath>

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "models/nn/kernel.h"
#include "models/nn/saved.h"

namespace trainer::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// One row: out = base + (draw >= threshold ? x * scale : 0).
template <class T, class B>
inline __attribute__((always_inline)) void mask_row(const T* x, const uint16_t* draws, uint32_t threshold, float scale, const B* base,
                                                    int64_t n, B* out) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float kept = draws[i] >= threshold ? static_cast<float>(x[i]) * scale : 0.0F;
    out[i] = static_cast<B>(base != nullptr ? static_cast<float>(base[i]) + kept : kept);
  }
}

TRAINER_KERNEL void mask_row_f32(const float* x, const uint16_t* draws, uint32_t threshold, float scale, const float* base, int64_t n,
                                 float* out) {
  if (base != nullptr)
    mask_row(x, draws, threshold, scale, base, n, out);
  else
    mask_row<float, float>(x, draws, threshold, scale, nullptr, n, out);
}

template <class T, class B>
void mask_one(const T* x, const uint16_t* draws, const DropoutRule& rule, const B* base, int64_t n, B* out) {
  if constexpr (std::is_same_v<T, float> && std::is_same_v<B, float>)
    mask_row_f32(x, draws, rule.threshold, rule.scale, base, n, out);
  else
    mask_row(x, draws, rule.threshold, rule.scale, base, n, out);
}

/// out [T, D] = base + dropout(x), base may be null or `out` itself.
template <class T, class B>
void mask_rows(const T* x, const DropoutRule& rule, const Layout& layout, int64_t width, const B* base, B* out) {
  at::parallel_for(0, layout.samples(), 1, [&](int64_t first, int64_t last) {
    std::vector<uint16_t> draws((width + kPhiloxChunk - 1) / kPhiloxChunk * kPhiloxChunk);
    for (int64_t s = first; s < last; ++s) {
      const Span span = layout.spans[s];
      for (int64_t token = 0; token < span.length; ++token) {
        const int64_t at = (span.begin + token) * width;
        dropout_draws(rule, layout.positions[s], token, 0, width, draws.data());
        mask_one(x + at, draws.data(), rule, base != nullptr ? base + at : nullptr, width, out + at);
      }
    }
  });
}

void masked(const at::Tensor& x, const DropoutRule& rule, const Layout& layout, const at::Tensor* base, at::Tensor& out) {
  const int64_t width = x.dim() == 0 ? 1 : x.size(-1);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "dropout", [&] {
    using T = scalar_t;
    if (out.scalar_type() == at::kFloat)
      mask_rows<T, float>(x.const_data_ptr<T>(), rule, layout, width, base ? base->const_data_ptr<float>() : nullptr,
                          out.data_ptr<float>());
    else
      mask_rows<T, T>(x.const_data_ptr<T>(), rule, layout, width, base ? base->const_data_ptr<T>() : nullptr, out.data_ptr<T>());
  });
}

/// Also covers plain dropout: there is no `residual` then.
struct DropoutAdd : Function<DropoutAdd> {
  struct State {
    DropoutRule rule;
    LayoutPtr layout;
    at::ScalarType dtype;
    bool has_residual;
  };

  static at::Tensor forward(AutogradContext* ctx, const std::optional<at::Tensor>& residual, const at::Tensor& x,
                            const DropoutRule& rule, const LayoutPtr& layout) {
    keep<State>(ctx, {rule, layout, x.scalar_type(), residual.has_value()});
    const auto source = x.contiguous();
    const auto base = residual ? residual->contiguous() : at::Tensor();
    at::Tensor out = at::empty_like(base.defined() ? base : source);
    masked(source, rule, *layout, base.defined() ? &base : nullptr, out);
    return out;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto& state = kept<State>(ctx);
    const auto grad = grads[0].contiguous();
    at::Tensor dx = at::empty_like(grad);
    masked(grad, state.rule, *state.layout, nullptr, dx);
    return {state.has_residual ? grads[0] : at::Tensor(), dx.to(state.dtype), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

DropoutRule dropout_rule(PhiloxKey key, double p) {
  const auto threshold = static_cast<uint32_t>(std::lround(p * 65536.0));
  return {key, threshold, static_cast<float>(65536.0 / (65536.0 - threshold))};
}

at::Tensor dropout(const at::Tensor& x, const DropoutRule& rule, const LayoutPtr& layout) {
  return rule.active() ? DropoutAdd::apply(std::optional<at::Tensor>(), x, rule, layout) : x;
}

at::Tensor dropout_add(const at::Tensor& residual, const at::Tensor& x, const DropoutRule& rule, const LayoutPtr& layout) {
  return rule.active() ? DropoutAdd::apply(std::optional<at::Tensor>(residual), x, rule, layout) : residual + x;
}

void apply_dropout(const at::Tensor& x, const DropoutRule& rule, const Layout& layout, at::Tensor& out, bool accumulate) {
  masked(x, rule, layout, accumulate ? &out : nullptr, out);
}

}  // namespace trainer::nn
