#include "models/nn/cuda/draws.h"
#include "models/nn/cuda/kernels.h"

namespace trainer::nn::cuda {
namespace {

/// An activation's value and slope at x.
struct ValueAndSlope {
  float value, slope;
};

/// The same formulas as in models/nn/feed_forward.cpp. The switch is uniform: all threads take the same branch.
__device__ inline ValueAndSlope activation_at(Activation activation, float x) {
  switch (activation) {
    case Activation::kRelu:
      return {x < 0 ? 0 : x, x > 0 ? 1.0F : 0.0F};
    case Activation::kGeluNew: {
      constexpr float kScale = 0.7978845608F, kCubic = 0.044715F;  // sqrt(2 / pi)
      const float t = tanhf(kScale * (x + kCubic * x * x * x));
      return {0.5F * x * (1 + t), 0.5F * (1 + t) + 0.5F * x * (1 - t * t) * kScale * (1 + 3 * kCubic * x * x)};
    }
    case Activation::kSilu: {
      const float s = 1.0F / (1.0F + expf(-x));
      return {x * s, s * (1 + x * (1 - s))};
    }
    case Activation::kQuickGelu: {
      constexpr float kSlope = 1.702F;
      const float s = 1.0F / (1.0F + expf(-kSlope * x));
      return {x * s, s * (1 + kSlope * x * (1 - s))};
    }
    case Activation::kTanh: {
      const float t = tanhf(x);
      return {t, 1 - t * t};
    }
    case Activation::kGelu:
      break;
  }
  const float cdf = 0.5F * (1 + erff(x * 0.7071067812F));
  return {x * cdf, cdf + x * 0.3989422804F * expf(-0.5F * x * x)};
}

template <class T>
struct Forward {
  Activation activation;
  const T *gate, *up;
  T* out;

  template <int N>
  __device__ void visit(int64_t at, Floats<N> factor) const {
    if (up != nullptr) {
      const Floats<N> u = load<N>(up + at);
      for (int i = 0; i < N; ++i) factor.x[i] *= u.x[i];
    }
    const Floats<N> g = load<N>(gate + at);
    for (int i = 0; i < N; ++i) factor.x[i] *= activation_at(activation, g.x[i]).value;
    store<N>(out + at, factor);
  }
};

template <class T>
struct Backward {
  Activation activation;
  const T *grad, *gate, *up;
  T *gate_grad, *up_grad;

  template <int N>
  __device__ void visit(int64_t at, Floats<N> factor) const {
    const Floats<N> given = load<N>(grad + at), g = load<N>(gate + at);
    Floats<N> of_gate, of_up;
    for (int i = 0; i < N; ++i) {
      const ValueAndSlope point = activation_at(activation, g.x[i]);
      of_up.x[i] = given.x[i] * factor.x[i] * point.value;
      of_gate.x[i] = given.x[i] * factor.x[i] * point.slope;
    }
    if (up != nullptr) {
      const Floats<N> u = load<N>(up + at);
      for (int i = 0; i < N; ++i) of_gate.x[i] *= u.x[i];
      store<N>(up_grad + at, of_up);
    }
    store<N>(gate_grad + at, of_gate);
  }
};

}  // namespace

void activate(ElementType type, Activation activation, const void* gate, const void* up, const RowDraws& draws,
              int64_t rows, int64_t width, void* out, void* stream) {
  with_type(type, [&](auto of) {
    using T = typename decltype(of)::type;
    const Forward<T> body{activation, static_cast<const T*>(gate), static_cast<const T*>(up), static_cast<T*>(out)};
    visit(body, draws, rows, width, least_run(body.gate, body.up, body.out), stream);
  });
}

void activate_backward(ElementType type, Activation activation, const void* grad, const void* gate, const void* up,
                       const RowDraws& draws, int64_t rows, int64_t width, void* gate_grad, void* up_grad,
                       void* stream) {
  with_type(type, [&](auto of) {
    using T = typename decltype(of)::type;
    const Backward<T> body{activation,
                           static_cast<const T*>(grad),
                           static_cast<const T*>(gate),
                           static_cast<const T*>(up),
                           static_cast<T*>(gate_grad),
                           static_cast<T*>(up_grad)};
    visit(body, draws, rows, width, least_run(body.grad, body.gate, body.up, body.gate_grad, body.up_grad), stream);
  });
}

}  // namespace trainer::nn::cuda
