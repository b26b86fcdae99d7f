#include "engine/dist/dry_norms.h"

#include <array>
#include <tuple>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

namespace trainer::dist {
namespace {

using at::Tensor;
using MaybeTensor = std::optional<Tensor>;

// Shapes as of torch 2.11 (aten/src/ATen/native/cuda/layer_norm_kernel.cu), over the last dimension.
// tests/simulated/norms.cpp has the same, with values.

/// A statistic of each row, fp32.
Tensor of_rows(const Tensor& x) {
  auto shape = x.sizes().vec();
  shape.back() = 1;
  return at::empty(shape, x.options().dtype(at::kFloat));
}

Tensor like_if(bool wanted, const Tensor& x) {
  return wanted ? at::empty_like(x) : Tensor();
}

std::tuple<Tensor, Tensor> rms_norm(const Tensor& x, at::IntArrayRef, const MaybeTensor&, std::optional<double>) {
  return {at::empty_like(x), of_rows(x)};
}

std::tuple<Tensor, Tensor> rms_norm_backward(const Tensor&, const Tensor& x, at::IntArrayRef, const Tensor&,
                                             const MaybeTensor& weight, std::array<bool, 2> wanted) {
  return {like_if(wanted[0], x), like_if(wanted[1], weight.value_or(Tensor()))};
}

std::tuple<Tensor, Tensor, Tensor> layer_norm(const Tensor& x, c10::SymIntArrayRef, const MaybeTensor&,
                                              const MaybeTensor&, double) {
  return {at::empty_like(x), of_rows(x), of_rows(x)};
}

std::tuple<Tensor, Tensor, Tensor> layer_norm_backward(const Tensor&, const Tensor& x, c10::SymIntArrayRef,
                                                       const Tensor&, const Tensor&, const MaybeTensor& weight,
                                                       const MaybeTensor& bias, std::array<bool, 3> wanted) {
  return {like_if(wanted[0], x), like_if(wanted[1], weight.value_or(Tensor())),
          like_if(wanted[2], bias.value_or(Tensor()))};
}

}  // namespace

void add_norm_shapes(torch::Library& shapes) {
  shapes.impl("_fused_rms_norm", rms_norm);
  shapes.impl("_fused_rms_norm_backward", rms_norm_backward);
  shapes.impl("native_layer_norm", layer_norm);
  shapes.impl("native_layer_norm_backward", layer_norm_backward);
}

}  // namespace trainer::dist
