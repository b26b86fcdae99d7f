#include "models/nn/head_rows.h"

#include <algorithm>

#include <ATen/Dispatch.h>

#include "models/nn/convert.h"

namespace trainer::nn {
namespace {

/// Calls f(pointer of the type's elements) with the data of a tensor of 16 bits.
template <class F>
void with_halves(const at::Tensor& x, const F& f) {
  AT_DISPATCH_REDUCED_FLOATING_TYPES(x.scalar_type(), "attention", [&] { f(x.data_ptr<scalar_t>()); });
}

float* sized(HeadRows::Memory& memory, int64_t size) {
  if (static_cast<int64_t>(memory.size()) < size) memory.resize(size);
  return memory.data();
}

}  // namespace

Matrix HeadRows::read(Memory& memory) const {
  const int64_t stride = tensor_.size(1);
  if (stays()) return {tensor_.const_data_ptr<float>() + at_, stride};
  float* const to = sized(memory, rows_ * width_);
  with_halves(tensor_, [&](const auto* data) { widen_rows(data + at_, stride, rows_, width_, to); });
  return {to, width_};
}

HeadRows::Place HeadRows::place(Memory& memory) const {
  if (stays()) return {tensor_.data_ptr<float>() + at_, tensor_.size(1)};
  return {sized(memory, rows_ * width_), width_};
}

HeadRows::Place HeadRows::zeros(Memory& memory) const {
  const Place to = place(memory);
  for (int64_t row = 0; row < rows_; ++row) std::fill_n(to.data + row * to.stride, width_, 0.0F);
  return to;
}

void HeadRows::finish(const Memory& memory) const {
  if (stays()) return;
  with_halves(tensor_, [&](auto* data) { narrow_rows(memory.data(), rows_, width_, tensor_.size(1), data + at_); });
}

}  // namespace trainer::nn
