#include "models/nn/feed_forward.h"

#include <cmath>

#include <ATen/Dispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "models/nn/device/activation.h"
#include "models/nn/fast_math.h"
#include "models/nn/kernel.h"
#include "models/nn/parallel.h"
#include "models/nn/reference/activation.h"
#include "models/nn/reference/reference.h"
#include "models/nn/rounded.h"
#include "models/nn/saved.h"

namespace trainer::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// An activation's value and slope at x.
struct Point {
  float value, slope;
};

template <Activation kind>
inline __attribute__((always_inline)) Point activation_at(float x) {
  if constexpr (kind == Activation::kRelu) {
    return {x < 0 ? 0 : x, x > 0 ? 1.0F : 0.0F};
  } else if constexpr (kind == Activation::kGeluNew) {
    constexpr float kScale = 0.7978845608F, kCubic = 0.044715F;  // sqrt(2 / pi)
    const float t = fast_tanh(kScale * (x + kCubic * x * x * x));
    return {0.5F * x * (1 + t), 0.5F * (1 + t) + 0.5F * x * (1 - t * t) * kScale * (1 + 3 * kCubic * x * x)};
  } else if constexpr (kind == Activation::kSilu) {
    const float s = 1.0F / (1.0F + fast_exp(-x));
    return {x * s, s * (1 + x * (1 - s))};
  } else if constexpr (kind == Activation::kQuickGelu) {
    constexpr float kSlope = 1.702F;
    const float s = 1.0F / (1.0F + fast_exp(-kSlope * x));
    return {x * s, s * (1 + kSlope * x * (1 - s))};
  } else if constexpr (kind == Activation::kTanh) {
    const float t = fast_tanh(x);
    return {t, 1 - t * t};
  } else {
    const float cdf = normal_cdf(x);
    return {x * cdf, cdf + x * 0.3989422804F * fast_exp(-0.5F * x * x)};
  }
}

// Whether a pointer is null is decided outside of the loops: inside, it becomes a load with an empty mask from an
// invalid address, for which CPUs need hundreds of cycles.

/// out = act(gate) * up * keep, without `up` if not `gated`.
template <Activation kind, bool gated, class T>
inline __attribute__((always_inline)) void forward_loop(const T* gate, const T* up, const float* keep, int64_t n,
                                                        T* out) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float factor = keep[i] * (gated ? static_cast<float>(up[i]) : 1.0F);
    out[i] = rounded<T>(activation_at<kind>(static_cast<float>(gate[i])).value * factor);
  }
}

template <Activation kind, bool gated, class T>
inline __attribute__((always_inline)) void backward_loop(const T* grad, const T* gate, const T* up, const float* keep,
                                                         int64_t n, T* dgate, T* dup) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float g = static_cast<float>(grad[i]) * keep[i];
    const Point point = activation_at<kind>(static_cast<float>(gate[i]));
    dgate[i] = rounded<T>(g * point.slope * (gated ? static_cast<float>(up[i]) : 1.0F));
    if constexpr (gated) dup[i] = rounded<T>(g * point.value);
  }
}

/// `up` null: not gated.
template <Activation kind, class T>
inline __attribute__((always_inline)) void forward_row(const T* gate, const T* up, const float* keep, int64_t n,
                                                       T* out) {
  if (up != nullptr)
    forward_loop<kind, true>(gate, up, keep, n, out);
  else
    forward_loop<kind, false>(gate, up, keep, n, out);
}

template <Activation kind, class T>
inline __attribute__((always_inline)) void backward_row(const T* grad, const T* gate, const T* up, const float* keep,
                                                        int64_t n, T* dgate, T* dup) {
  if (up != nullptr)
    backward_loop<kind, true>(grad, gate, up, keep, n, dgate, dup);
  else
    backward_loop<kind, false>(grad, gate, up, keep, n, dgate, dup);
}

/// The row kernels of one activation, compiled for each instruction set.
template <Activation kind, class T>
struct RowKernels {
  TRAINER_KERNEL static void forward(const T* gate, const T* up, const float* keep, int64_t n, T* out) {
    forward_row<kind>(gate, up, keep, n, out);
  }
  TRAINER_KERNEL static void backward(const T* grad, const T* gate, const T* up, const float* keep, int64_t n, T* dgate,
                                      T* dup) {
    backward_row<kind>(grad, gate, up, keep, n, dgate, dup);
  }
};

template <Activation kind>
struct Rows {
  template <class T>
  static void forward(const T* gate, const T* up, const float* keep, int64_t n, T* out) {
    RowKernels<kind, T>::forward(gate, up, keep, n, out);
  }
  template <class T>
  static void backward(const T* grad, const T* gate, const T* up, const float* keep, int64_t n, T* dgate, T* dup) {
    RowKernels<kind, T>::backward(grad, gate, up, keep, n, dgate, dup);
  }
};

/// Calls f with the activation's Rows.
template <class F>
void with_rows(Activation activation, const F& f) {
  switch (activation) {
    case Activation::kRelu:
      return f(Rows<Activation::kRelu>());
    case Activation::kGelu:
      return f(Rows<Activation::kGelu>());
    case Activation::kGeluNew:
      return f(Rows<Activation::kGeluNew>());
    case Activation::kSilu:
      return f(Rows<Activation::kSilu>());
    case Activation::kQuickGelu:
      return f(Rows<Activation::kQuickGelu>());
    case Activation::kTanh:
      return f(Rows<Activation::kTanh>());
  }
}

/// Calls f(element offset, the row's keep factors) for every row of `mask` (undefined: no dropout).
template <class F>
void for_each_row(int64_t rows, int64_t width, const at::Tensor& mask, float scale, const F& f) {
  parallel_for(0, rows, 16, [&](int64_t first, int64_t last) {
    std::vector<float> keep(width, 1.0F);
    for (int64_t row = first; row < last; ++row) {
      if (mask.defined())
        expand_mask_row(mask.const_data_ptr<uint8_t>() + row * mask.size(1), scale, width, keep.data());
      f(row * width, keep.data());
    }
  });
}

/// Not gated if `up` is missing.
struct Activate : torch::autograd::Function<Activate> {
  struct State {
    Activation activation;
    float scale;
  };

  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& gate_in, const std::optional<at::Tensor>& up_in,
                            Activation activation, const DropoutRule& rule, const LayoutPtr& layout) {
    const auto gate = gate_in.contiguous(), up = up_in ? up_in->contiguous() : at::Tensor();
    const int64_t width = gate.size(1);
    const at::Tensor mask = rule.active() ? dropout_mask(rule, *layout, gate) : at::Tensor();
    at::Tensor out = at::empty_like(gate);
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, gate.scalar_type(), "activate", [&] {
      const scalar_t *g = gate.const_data_ptr<scalar_t>(), *u = up.defined() ? up.const_data_ptr<scalar_t>() : nullptr;
      scalar_t* const o = out.data_ptr<scalar_t>();
      with_rows(activation, [&](auto rows) {
        for_each_row(rows_to_compute(gate, gate.size(0)), width, mask, rule.scale, [&](int64_t at, const float* keep) {
          rows.forward(g + at, u != nullptr ? u + at : nullptr, keep, width, o + at);
        });
      });
    });
    ctx->save_for_backward({gate, up, mask});
    keep<State>(ctx, {activation, rule.scale});
    return out;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const auto &gate = saved[0], &up = saved[1], &mask = saved[2];
    const State& state = kept<State>(ctx);
    const auto grad = grads[0].contiguous();
    const int64_t width = gate.size(1);
    at::Tensor dgate = at::empty_like(gate), dup = up.defined() ? at::empty_like(up) : at::Tensor();
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, gate.scalar_type(), "activate", [&] {
      const scalar_t *gr = grad.const_data_ptr<scalar_t>(), *g = gate.const_data_ptr<scalar_t>();
      const scalar_t* const u = up.defined() ? up.const_data_ptr<scalar_t>() : nullptr;
      scalar_t *const dg = dgate.data_ptr<scalar_t>(), *const du = dup.defined() ? dup.data_ptr<scalar_t>() : nullptr;
      with_rows(state.activation, [&](auto rows) {
        for_each_row(rows_to_compute(gate, gate.size(0)), width, mask, state.scale, [&](int64_t at, const float* keep) {
          rows.backward(gr + at, g + at, u != nullptr ? u + at : nullptr, keep, width, dg + at,
                        du != nullptr ? du + at : nullptr);
        });
      });
    });
    return {dgate, dup, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

/// dropout(relu(x)): an element passes its gradient if it was positive and kept, which takes one bit.
struct ReluDropout : torch::autograd::Function<ReluDropout> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x_in, const DropoutRule& rule,
                            const LayoutPtr& layout) {
    const auto x = x_in.contiguous();
    const int64_t width = x.size(1), bytes = mask_bytes(width);
    at::Tensor out = at::empty_like(x);
    at::Tensor mask = rule.active() ? dropout_mask(rule, *layout, x) : at::Tensor(),
               passes = at::empty({x.size(0), bytes}, x.options().dtype(at::kByte));
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "relu_dropout", [&] {
      const scalar_t* const from = x.const_data_ptr<scalar_t>();
      scalar_t* const to = out.data_ptr<scalar_t>();
      for_each_row(rows_to_compute(x, x.size(0)), width, mask, rule.scale, [&](int64_t at, const float* keep) {
        Rows<Activation::kRelu>::forward(from + at, static_cast<const scalar_t*>(nullptr), keep, width, to + at);
        note_positive(to + at, width, passes.data_ptr<uint8_t>() + at / width * bytes);
      });
    });
    ctx->save_for_backward({passes});
    ctx->saved_data["scale"] = static_cast<double>(rule.scale);
    return out;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto scale = static_cast<float>(ctx->saved_data["scale"].toDouble());
    return {apply_mask(grads[0].contiguous(), ctx->get_saved_variables()[0], scale), at::Tensor(), at::Tensor()};
  }

  template <class T>
  static void note_positive(const T* x, int64_t n, uint8_t* bits) {
    if constexpr (std::is_same_v<T, float>) {
      positive_mask_row(x, n, bits);
    } else {
      thread_local std::vector<float> row;
      row.assign(x, x + n);
      positive_mask_row(row.data(), n, bits);
    }
  }
};

// Hugging Face's names (in its table ACT2FN) of the supported activations.
constexpr std::pair<std::string_view, Activation> kNames[] = {{"relu", Activation::kRelu},
                                                              {"gelu", Activation::kGelu},
                                                              {"gelu_python", Activation::kGelu},
                                                              {"gelu_new", Activation::kGeluNew},
                                                              {"gelu_fast", Activation::kGeluNew},
                                                              {"gelu_pytorch_tanh", Activation::kGeluNew},
                                                              {"gelu_python_tanh", Activation::kGeluNew},
                                                              {"silu", Activation::kSilu},
                                                              {"swish", Activation::kSilu},
                                                              {"quick_gelu", Activation::kQuickGelu},
                                                              {"tanh", Activation::kTanh}};

bool runs_elsewhere(const at::Tensor& gate) {
  return runs_reference(gate) || device_kernels(gate) != nullptr;
}

/// Without the CPU's kernels; `up` may be missing.
at::Tensor run_elsewhere(const at::Tensor& gate, const std::optional<at::Tensor>& up, Activation activation,
                         const DropoutRule& rule, const LayoutPtr& layout) {
  const DeviceKernels* const kernels = device_kernels(gate);
  if (kernels != nullptr && element_type(gate.scalar_type()) && (!up || up->scalar_type() == gate.scalar_type()))
    return device::activate(*kernels, gate, up, activation, rule, layout);
  const at::Tensor kept = rule.active() ? dropout_mask(rule, *layout, gate) : at::Tensor();
  return reference::activate(gate, up.value_or(at::Tensor()), activation, kept, rule.scale);
}

}  // namespace

std::optional<Activation> activation_of(std::string_view name) {
  for (const auto& [known, activation] : kNames)
    if (known == name) return activation;
  return std::nullopt;
}

std::string activation_names() {
  std::string names;
  for (const auto& [known, activation] : kNames) names.append(names.empty() ? "" : ", ").append(known);
  return names;
}

at::Tensor activate(const at::Tensor& x, Activation activation, const DropoutRule& rule, const LayoutPtr& layout) {
  if (runs_elsewhere(x)) return run_elsewhere(x, std::nullopt, activation, rule, layout);
  if (activation == Activation::kRelu) return ReluDropout::apply(x, rule, layout);
  return Activate::apply(x, std::optional<at::Tensor>(), activation, rule, layout);
}

at::Tensor activate_gated(const at::Tensor& gate, const at::Tensor& up, Activation activation, const DropoutRule& rule,
                          const LayoutPtr& layout) {
  if (runs_elsewhere(gate)) return run_elsewhere(gate, up, activation, rule, layout);
  return Activate::apply(gate, std::optional<at::Tensor>(up), activation, rule, layout);
}

}  // namespace trainer::nn
