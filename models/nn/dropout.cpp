#include "models/nn/dropout.h"

#include <cmath>

#include <ATen/Dispatch.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "models/nn/device/dropout.h"
#include "models/nn/kernel.h"
#include "models/nn/parallel.h"
#include "models/nn/reference/draws.h"
#include "models/nn/reference/reference.h"
#include "models/nn/rounded.h"
#include "models/nn/saved.h"

namespace trainer::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// One row: out = x * keep (+ base), where `keep` is the scale or 0.
template <class T, class B>
inline __attribute__((always_inline)) void scale_row(const T* x, const float* keep, const B* base, int64_t n, B* out) {
  if (base == nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] = rounded<B>(static_cast<float>(x[i]) * keep[i]);
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i)
      out[i] = rounded<B>(static_cast<float>(x[i]) * keep[i] + static_cast<float>(base[i]));
  }
}

template <class T, class B>
struct ScaleRow {
  TRAINER_KERNEL static void run(const T* x, const float* keep, const B* base, int64_t n, B* out) {
    scale_row(x, keep, base, n, out);
  }
};

/// out [T, D] = base + mask * x * scale; base may be null.
template <class T, class B>
void scale_rows(const at::Tensor& x, const at::Tensor& mask, float scale, const at::Tensor& base, at::Tensor& out) {
  const int64_t width = x.size(-1), bytes = mask.size(1);
  const T* const from = x.const_data_ptr<T>();
  const B* const add = base.defined() ? base.const_data_ptr<B>() : nullptr;
  B* const to = out.data_ptr<B>();
  parallel_for(0, rows_to_compute(x, mask.size(0)), 16, [&](int64_t first, int64_t last) {
    std::vector<float> keep(width);
    for (int64_t row = first; row < last; ++row) {
      expand_mask_row(mask.const_data_ptr<uint8_t>() + row * bytes, scale, width, keep.data());
      ScaleRow<T, B>::run(from + row * width, keep.data(), add != nullptr ? add + row * width : nullptr, width,
                          to + row * width);
    }
  });
}

void scaled(const at::Tensor& x, const at::Tensor& mask, float scale, const at::Tensor& base, at::Tensor& out) {
  if (mask.scalar_type() == at::kBool) {  // a mask of the reference layers
    const at::Tensor kept = reference::masked(x, mask, scale);
    out.copy_(base.defined() ? kept + base : kept);
    return;
  }
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "dropout", [&] {
    if (out.scalar_type() == at::kFloat)
      scale_rows<scalar_t, float>(x, mask, scale, base, out);
    else
      scale_rows<scalar_t, scalar_t>(x, mask, scale, base, out);
  });
}

/// Also covers dropout without a residual.
struct DropoutAdd : Function<DropoutAdd> {
  struct State {
    float scale;
    at::ScalarType dtype;
    bool has_residual;
  };

  static at::Tensor forward(AutogradContext* ctx, const std::optional<at::Tensor>& residual, const at::Tensor& x,
                            const DropoutRule& rule, const LayoutPtr& layout) {
    const at::Tensor mask = dropout_mask(rule, *layout, x);
    ctx->save_for_backward({mask});
    keep<State>(ctx, {rule.scale, x.scalar_type(), residual.has_value()});
    const auto source = x.contiguous();
    const auto base = residual ? residual->contiguous() : at::Tensor();
    at::Tensor out = at::empty_like(base.defined() ? base : source);
    scaled(source, mask, rule.scale, base, out);
    return out;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto& state = kept<State>(ctx);
    const auto dx = apply_mask(grads[0].contiguous(), ctx->get_saved_variables()[0], state.scale);
    return {state.has_residual ? grads[0] : at::Tensor(), dx.to(state.dtype), at::Tensor(), at::Tensor()};
  }
};

at::Tensor run_dropout(const std::optional<at::Tensor>& residual, const at::Tensor& x, const DropoutRule& rule,
                       const LayoutPtr& layout) {
  const DeviceKernels* const kernels = device_kernels(x);
  if (kernels != nullptr && device::supports_dropout(residual, x))
    return device::dropout_add(*kernels, residual, x, rule, layout);
  return DropoutAdd::apply(residual, x, rule, layout);
}

}  // namespace

DropoutRule dropout_rule(PhiloxKey key, double p) {
  constexpr int64_t kMost = 65535;  // a draw has 16 bits: the highest rate still keeps one element in 65536
  const auto threshold = static_cast<uint32_t>(std::min<int64_t>(std::lround(p * 65536.0), kMost));
  return {key, threshold, static_cast<float>(65536.0 / (65536.0 - threshold))};
}

at::Tensor dropout(const at::Tensor& x, const DropoutRule& rule, const LayoutPtr& layout) {
  return rule.active() ? run_dropout(std::nullopt, x, rule, layout) : x;
}

at::Tensor dropout_add(const at::Tensor& residual, const at::Tensor& x, const DropoutRule& rule,
                       const LayoutPtr& layout) {
  // Without dropout, libtorch's addition is as good, except that on a device it is slow for different dtypes.
  const bool converts = residual.scalar_type() != x.scalar_type() && device_kernels(x) != nullptr;
  return rule.active() || (converts && device::supports_dropout(residual, x)) ? run_dropout(residual, x, rule, layout)
                                                                              : residual + x;
}

at::Tensor dropout_mask(const DropoutRule& rule, const Layout& layout, const at::Tensor& x) {
  if (const DeviceKernels* const kernels = device_kernels(x)) return device::kept_mask(*kernels, rule, layout, x);
  if (runs_reference(x)) return reference::kept_mask(rule, layout, x.size(-1), x.device());
  return draw_mask(rule.key, rule.threshold, layout, rule.first, x.size(-1), x.device());
}

at::Tensor apply_mask(const at::Tensor& x, const at::Tensor& mask, float scale) {
  at::Tensor out = at::empty_like(x);
  scaled(x, mask, scale, at::Tensor(), out);
  return out;
}

}  // namespace trainer::nn
