// Saves a fused function's state for backward, besides tensors: any copyable struct.
#pragma once

#include <utility>

#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

namespace trainer::nn {

template <class T>
struct Held : torch::CustomClassHolder {
  explicit Held(T v) : value(std::move(v)) {}
  T value;
};

template <class T>
void keep(torch::autograd::AutogradContext* ctx, T value) {
  ctx->saved_data["state"] = c10::IValue::make_capsule(c10::make_intrusive<Held<T>>(std::move(value)));
}

template <class T>
const T& kept(torch::autograd::AutogradContext* ctx) {
  return c10::static_intrusive_pointer_cast<Held<T>>(ctx->saved_data["state"].toCapsule())->value;
}

/// Takes it, so that what it holds is freed with it.
template <class T>
T take_kept(torch::autograd::AutogradContext* ctx) {
  return std::move(c10::static_intrusive_pointer_cast<Held<T>>(ctx->saved_data["state"].toCapsule())->value);
}

}  // namespace trainer::nn
