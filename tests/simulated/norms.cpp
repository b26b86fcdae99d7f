// libtorch's fused norms, by their contract on CUDA in torch 2.11, in fp32.
#include <array>
#include <tuple>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <ATen/ops/rsqrt.h>
#include <torch/library.h>

#include "tests/simulated/device.h"

namespace trainer::simulated {
namespace {

using at::Tensor;
using MaybeTensor = std::optional<Tensor>;

/// CUDA takes mixed dtypes too; the layers don't use them.
void check_norm(const Tensor& x, at::IntArrayRef normalized, const MaybeTensor& weight, const MaybeTensor& bias) {
  TORCH_CHECK(normalized.size() == 1 && x.dim() >= 1 && normalized[0] == x.size(-1),
              "norms are over the last dimension");
  TORCH_CHECK(x.scalar_type() == at::kFloat && x.is_contiguous(), "expected contiguous fp32");
  for (const MaybeTensor& one : {weight, bias})
    TORCH_CHECK(!one || !one->defined() || (one->sizes() == normalized && one->scalar_type() == x.scalar_type()),
                "expected weight and bias of the normalized shape and of the input's dtype");
}

Tensor statistic_of_rows(const Tensor& x) {
  auto shape = x.sizes().vec();
  shape.back() = 1;
  return at::empty(shape, x.options());
}

Tensor like_if(bool wanted, const Tensor& x) {
  return wanted ? at::empty_like(x) : Tensor();
}

MaybeTensor maybe_on_cpu(const MaybeTensor& tensor) {
  return tensor && tensor->defined() ? MaybeTensor(on_cpu(*tensor)) : std::nullopt;
}

void store_result(const MaybeTensor& result, const Tensor& computed) {
  if (result) result->copy_(computed);
}

std::tuple<Tensor, Tensor> fused_rms_norm(const Tensor& x, at::IntArrayRef normalized, const MaybeTensor& weight,
                                          std::optional<double> eps) {
  check_norm(x, normalized, weight, std::nullopt);
  const Tensor out = at::empty_like(x), scales = statistic_of_rows(x);
  launch("aten::_fused_rms_norm", {x, weight.value_or(Tensor())}, {out, scales},
         [rows = on_cpu(x), factor = maybe_on_cpu(weight), to = on_cpu(out), to_scales = on_cpu(scales), eps] {
           const Tensor scale = at::rsqrt((rows * rows).mean(-1, true) + eps.value());
           to_scales.copy_(scale);
           to.copy_(factor ? rows * scale * *factor : rows * scale);
         });
  return {out, scales};
}

std::tuple<Tensor, Tensor> fused_rms_norm_backward(const Tensor& grad, const Tensor& x, at::IntArrayRef normalized,
                                                   const Tensor& scales, const MaybeTensor& weight,
                                                   std::array<bool, 2> wanted) {
  check_norm(x, normalized, weight, std::nullopt);
  TORCH_CHECK(grad.sizes() == x.sizes() && scales.numel() * x.size(-1) == x.numel(), "shapes differ from forward's");
  const Tensor dx = like_if(wanted[0], x), dweight = like_if(wanted[1], weight.value_or(Tensor()));
  launch("aten::_fused_rms_norm_backward", {grad, x, scales, weight.value_or(Tensor())}, {dx, dweight},
         [g = on_cpu(grad), rows = on_cpu(x), s = on_cpu(scales), factor = maybe_on_cpu(weight),
          to_x = maybe_on_cpu(dx), to_weight = maybe_on_cpu(dweight)] {
           const Tensor scaled = factor ? g * *factor : g;
           store_result(to_x, s * (scaled - rows * s * s * (scaled * rows).mean(-1, true)));
           if (to_weight) store_result(to_weight, (g * rows * s).reshape({-1, rows.size(-1)}).sum(0));
         });
  return {dx, dweight};
}

std::tuple<Tensor, Tensor, Tensor> layer_norm(const Tensor& x, at::IntArrayRef normalized, const MaybeTensor& weight,
                                              const MaybeTensor& bias, double eps) {
  check_norm(x, normalized, weight, bias);
  const Tensor out = at::empty_like(x), means = statistic_of_rows(x), scales = statistic_of_rows(x);
  launch("aten::native_layer_norm", {x, weight.value_or(Tensor()), bias.value_or(Tensor())}, {out, means, scales},
         [rows = on_cpu(x), width = normalized.vec(), factor = maybe_on_cpu(weight), added = maybe_on_cpu(bias), eps,
          to = on_cpu(out), to_means = on_cpu(means), to_scales = on_cpu(scales)] {
           const auto [computed, mean, scale] = at::native_layer_norm(rows, width, factor, added, eps);
           to.copy_(computed), to_means.copy_(mean), to_scales.copy_(scale);
         });
  return {out, means, scales};
}

std::tuple<Tensor, Tensor, Tensor> layer_norm_backward(const Tensor& grad, const Tensor& x, at::IntArrayRef normalized,
                                                       const Tensor& means, const Tensor& scales,
                                                       const MaybeTensor& weight, const MaybeTensor& bias,
                                                       std::array<bool, 3> wanted) {
  check_norm(x, normalized, weight, bias);
  TORCH_CHECK(grad.sizes() == x.sizes() && means.sizes() == scales.sizes(), "shapes differ from forward's");
  const Tensor dx = like_if(wanted[0], x), dweight = like_if(wanted[1], weight.value_or(Tensor())),
               dbias = like_if(wanted[2], bias.value_or(Tensor()));
  launch("aten::native_layer_norm_backward",
         {grad, x, means, scales, weight.value_or(Tensor()), bias.value_or(Tensor())}, {dx, dweight, dbias},
         [g = on_cpu(grad), rows = on_cpu(x), width = normalized.vec(), mean = on_cpu(means), scale = on_cpu(scales),
          factor = maybe_on_cpu(weight), added = maybe_on_cpu(bias), wanted, to_x = maybe_on_cpu(dx),
          to_weight = maybe_on_cpu(dweight), to_bias = maybe_on_cpu(dbias)] {
           const auto [of_x, of_weight, of_bias] =
               at::native_layer_norm_backward(g, rows, width, mean, scale, factor, added, wanted);
           store_result(to_x, of_x), store_result(to_weight, of_weight), store_result(to_bias, of_bias);
         });
  return {dx, dweight, dbias};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_fused_rms_norm", &fused_rms_norm);
  m.impl("_fused_rms_norm_backward", &fused_rms_norm_backward);
  m.impl("native_layer_norm", &layer_norm);
  m.impl("native_layer_norm_backward", &layer_norm_backward);
}

}  // namespace
}  // namespace trainer::simulated
