#include "models/nn/feed_forward.h"

#include <cmath>

#include <ATen/Dispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "models/nn/fast_math.h"
#include "models/nn/kernel.h"
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
    return {x > 0 ? x : 0, x > 0 ? 1.0F : 0.0F};
  } else if constexpr (kind == Activation::kGeluNew) {
    constexpr float kScale = 0.7978845608F, kCubic = 0.044715F;  // sqrt(2 / pi)
    const float t = fast_tanh(kScale * (x + kCubic * x * x * x));
    return {0.5F * x * (1 + t), 0.5F * (1 + t) + 0.5F * x * (1 - t * t) * kScale * (1 + 3 * kCubic * x * x)};
  } else if constexpr (kind == Activation::kSilu) {
    const float s = 1.0F / (1.0F + fast_exp(-x));
    return {x * s, s * (1 + x * (1 - s))};
  } else {
    const float cdf = 0.5F * (1 + std::erf(x * 0.7071067812F));
    return {x * cdf, cdf + x * 0.3989422804F * fast_exp(-0.5F * x * x)};
  }
}

/// out = act(gate) * up * mask; `up` null means 1, `draws` null means no dropout.
template <Activation kind, class T>
inline __attribute__((always_inline)) void forward_row(const T* gate, const T* up, const uint16_t* draws, uint32_t threshold, float scale,
                                                       int64_t n, T* out) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float keep = draws == nullptr ? 1.0F : (draws[i] >= threshold ? scale : 0.0F);
    const float factor = up == nullptr ? keep : keep * static_cast<float>(up[i]);
    out[i] = static_cast<T>(activation_at<kind>(static_cast<float>(gate[i])).value * factor);
  }
}

template <Activation kind, class T>
inline __attribute__((always_inline)) void backward_row(const T* grad, const T* gate, const T* up, const uint16_t* draws,
                                                        uint32_t threshold, float scale, int64_t n, T* dgate, T* dup) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float keep = draws == nullptr ? 1.0F : (draws[i] >= threshold ? scale : 0.0F);
    const float g = static_cast<float>(grad[i]) * keep;
    const Point point = activation_at<kind>(static_cast<float>(gate[i]));
    dgate[i] = static_cast<T>(g * point.slope * (up == nullptr ? 1.0F : static_cast<float>(up[i])));
    if (dup != nullptr) dup[i] = static_cast<T>(g * point.value);
  }
}

// The fp32 rows for each instruction set; other dtypes are compiled once.
#define TRAINER_ACTIVATION_ROWS(Name, kind)                                                                                        \
  TRAINER_KERNEL void forward_##Name(const float* gate, const float* up, const uint16_t* draws, uint32_t threshold, float scale,    \
                                     int64_t n, float* out) {                                                                       \
    forward_row<kind, float>(gate, up, draws, threshold, scale, n, out);                                                            \
  }                                                                                                                                 \
  TRAINER_KERNEL void backward_##Name(const float* grad, const float* gate, const float* up, const uint16_t* draws,                 \
                                      uint32_t threshold, float scale, int64_t n, float* dgate, float* dup) {                       \
    backward_row<kind, float>(grad, gate, up, draws, threshold, scale, n, dgate, dup);                                              \
  }                                                                                                                                 \
  template <class T>                                                                                                                \
  void forward_##Name(const T* gate, const T* up, const uint16_t* draws, uint32_t threshold, float scale, int64_t n, T* out) {      \
    forward_row<kind, T>(gate, up, draws, threshold, scale, n, out);                                                                \
  }                                                                                                                                 \
  template <class T>                                                                                                                \
  void backward_##Name(const T* grad, const T* gate, const T* up, const uint16_t* draws, uint32_t threshold, float scale,           \
                       int64_t n, T* dgate, T* dup) {                                                                               \
    backward_row<kind, T>(grad, gate, up, draws, threshold, scale, n, dgate, dup);                                                  \
  }
TRAINER_ACTIVATION_ROWS(relu, Activation::kRelu)
TRAINER_ACTIVATION_ROWS(gelu, Activation::kGelu)
TRAINER_ACTIVATION_ROWS(gelu_new, Activation::kGeluNew)
TRAINER_ACTIVATION_ROWS(silu, Activation::kSilu)
#undef TRAINER_ACTIVATION_ROWS

template <class T>
void forward_one(Activation a, const T* gate, const T* up, const uint16_t* draws, const DropoutRule& r, int64_t n, T* out) {
  switch (a) {
    case Activation::kRelu: return forward_relu(gate, up, draws, r.threshold, r.scale, n, out);
    case Activation::kGelu: return forward_gelu(gate, up, draws, r.threshold, r.scale, n, out);
    case Activation::kGeluNew: return forward_gelu_new(gate, up, draws, r.threshold, r.scale, n, out);
    case Activation::kSilu: return forward_silu(gate, up, draws, r.threshold, r.scale, n, out);
  }
}

template <class T>
void backward_one(Activation a, const T* grad, const T* gate, const T* up, const uint16_t* draws, const DropoutRule& r, int64_t n,
                  T* dgate, T* dup) {
  switch (a) {
    case Activation::kRelu: return backward_relu(grad, gate, up, draws, r.threshold, r.scale, n, dgate, dup);
    case Activation::kGelu: return backward_gelu(grad, gate, up, draws, r.threshold, r.scale, n, dgate, dup);
    case Activation::kGeluNew: return backward_gelu_new(grad, gate, up, draws, r.threshold, r.scale, n, dgate, dup);
    case Activation::kSilu: return backward_silu(grad, gate, up, draws, r.threshold, r.scale, n, dgate, dup);
  }
}

/// Calls f(row offset, draws or null) for every token.
template <class F>
void for_each_row(const DropoutRule& rule, const Layout& layout, int64_t width, const F& f) {
  at::parallel_for(0, layout.samples(), 1, [&](int64_t first, int64_t last) {
    std::vector<uint16_t> draws((width + kPhiloxChunk - 1) / kPhiloxChunk * kPhiloxChunk);
    for (int64_t s = first; s < last; ++s)
      for (int64_t token = 0; token < layout.spans[s].length; ++token) {
        if (rule.active()) dropout_draws(rule, layout.positions[s], token, 0, width, draws.data());
        f((layout.spans[s].begin + token) * width, rule.active() ? draws.data() : nullptr);
      }
  });
}

struct State {
  Activation activation;
  DropoutRule rule;
  LayoutPtr layout;
};

/// Without `up`: not gated.
struct Activate : torch::autograd::Function<Activate> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& gate_in, const std::optional<at::Tensor>& up_in,
                            Activation activation, const DropoutRule& rule, const LayoutPtr& layout) {
    const auto gate = gate_in.contiguous(), up = up_in ? up_in->contiguous() : at::Tensor();
    at::Tensor out = at::empty_like(gate);
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, gate.scalar_type(), "activate", [&] {
      using T = scalar_t;
      const T *g = gate.const_data_ptr<T>(), *u = up.defined() ? up.const_data_ptr<T>() : nullptr;
      T* const o = out.data_ptr<T>();
      for_each_row(rule, *layout, gate.size(1), [&](int64_t at, const uint16_t* draws) {
        forward_one(activation, g + at, u != nullptr ? u + at : nullptr, draws, rule, gate.size(1), o + at);
      });
    });
    ctx->save_for_backward({gate, up});
    keep<State>(ctx, {activation, rule, layout});
    return out;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const auto &gate = saved[0], &up = saved[1];
    const State& state = kept<State>(ctx);
    const auto grad = grads[0].contiguous();
    at::Tensor dgate = at::empty_like(gate), dup = up.defined() ? at::empty_like(up) : at::Tensor();
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, gate.scalar_type(), "activate", [&] {
      using T = scalar_t;
      const T *gr = grad.const_data_ptr<T>(), *g = gate.const_data_ptr<T>(), *u = up.defined() ? up.const_data_ptr<T>() : nullptr;
      T *const dg = dgate.data_ptr<T>(), *const du = dup.defined() ? dup.data_ptr<T>() : nullptr;
      for_each_row(state.rule, *state.layout, gate.size(1), [&](int64_t at, const uint16_t* draws) {
        backward_one(state.activation, gr + at, g + at, u != nullptr ? u + at : nullptr, draws, state.rule, gate.size(1), dg + at,
                     du != nullptr ? du + at : nullptr);
      });
    });
    return {dgate, dup, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

/// dropout(relu(x)): an element passes its gradient when it was positive and kept, which is one bit.
struct ReluDropout : torch::autograd::Function<ReluDropout> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x_in, const DropoutRule& rule, const LayoutPtr& layout) {
    const auto x = x_in.contiguous();
    const int64_t width = x.size(1), bytes = (width + 7) / 8;
    at::Tensor out = at::empty_like(x), bits = at::empty({x.size(0), bytes}, at::kByte);
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "relu_dropout", [&] {
      using T = scalar_t;
      const T* const from = x.const_data_ptr<T>();
      T* const to = out.data_ptr<T>();
      for_each_row(rule, *layout, width, [&](int64_t at, const uint16_t* draws) {
        forward_one(Activation::kRelu, from + at, static_cast<const T*>(nullptr), draws, rule, width, to + at);
        uint8_t* const row = bits.data_ptr<uint8_t>() + at / width * bytes;
        for (int64_t byte = 0; byte < bytes; ++byte) {
          uint8_t packed = 0;
          for (int64_t i = byte * 8; i < std::min(width, byte * 8 + 8); ++i)
            packed |= static_cast<uint8_t>(static_cast<float>(to[at + i]) > 0) << (i - byte * 8);
          row[byte] = packed;
        }
      });
    });
    ctx->save_for_backward({bits});
    ctx->saved_data["scale"] = rule.active() ? static_cast<double>(rule.scale) : 1.0;
    return out;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto bits = ctx->get_saved_variables()[0];
    const auto grad = grads[0].contiguous();
    const auto scale = static_cast<float>(ctx->saved_data["scale"].toDouble());
    const int64_t width = grad.size(1), bytes = bits.size(1);
    at::Tensor dx = at::empty_like(grad);
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, grad.scalar_type(), "relu_dropout", [&] {
      using T = scalar_t;
      const T* const g = grad.const_data_ptr<T>();
      T* const to = dx.data_ptr<T>();
      at::parallel_for(0, grad.size(0), 16, [&](int64_t first, int64_t last) {
        for (int64_t row = first; row < last; ++row) {
          const uint8_t* const packed = bits.const_data_ptr<uint8_t>() + row * bytes;
          for (int64_t i = 0; i < width; ++i)
            to[row * width + i] = (packed[i / 8] >> (i % 8) & 1) != 0 ? static_cast<T>(static_cast<float>(g[row * width + i]) * scale) : T(0);
        }
      });
    });
    return {dx, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor activate(const at::Tensor& x, Activation activation, const DropoutRule& rule, const LayoutPtr& layout) {
  if (activation == Activation::kRelu) return ReluDropout::apply(x, rule, layout);
  return Activate::apply(x, std::optional<at::Tensor>(), activation, rule, layout);
}

at::Tensor activate_gated(const at::Tensor& gate, const at::Tensor& up, Activation activation, const DropoutRule& rule,
                          const LayoutPtr& layout) {
  return Activate::apply(gate, std::optional<at::Tensor>(up), activation, rule, layout);
}

}  // namespace trainer::nn
