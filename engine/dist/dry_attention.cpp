#include "engine/dist/dry_attention.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "engine/base/round_up.h"

namespace trainer::dist {
namespace {

using at::Tensor;
using MaybeTensor = std::optional<Tensor>;
using MaybeInt = std::optional<int64_t>;

// Shapes as of torch 2.11 (aten/src/ATen/native/transformers/cuda: flash_attn/flash_api.cpp, attention.cu,
// attention_backward.cu). tests/simulated/attention.cpp has the same, with values.

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> flash_forward(const Tensor& q, const Tensor&, const Tensor&,
                                                                 const MaybeTensor&, const MaybeTensor&, int64_t,
                                                                 int64_t, double, bool, bool, std::optional<double>,
                                                                 MaybeInt, MaybeInt, const MaybeTensor&,
                                                                 const MaybeTensor&) {
  const auto word = q.options().dtype(at::kUInt64);
  return {at::empty_like(q), at::empty({q.size(1), q.size(0)}, q.options().dtype(at::kFloat)), at::empty({2}, word),
          at::empty({}, word), at::empty({0}, q.options())};
}

std::tuple<Tensor, Tensor, Tensor> flash_backward(const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v,
                                                  const Tensor&, const Tensor&, const Tensor& starts_q, const Tensor&,
                                                  int64_t, int64_t, double, bool, const Tensor&, const Tensor&,
                                                  std::optional<double>, MaybeInt, MaybeInt) {
  const Tensor own = grad.contiguous(), dq = at::empty_like(q), dk = at::empty_like(k), dv = at::empty_like(v);
  const int64_t width = q.size(2), rows = q.size(0) + 128 * (starts_q.size(0) - 1);
  const auto in_fp32 = q.options().dtype(at::kFloat);
  const Tensor sums = at::empty({q.size(1), rows}, in_fp32),
               accumulated = at::empty({rows, q.size(1), round_up(width, width <= 128 ? 32 : 64)}, in_fp32);
  const bool grouped = q.size(1) != k.size(1);
  const Tensor expanded = at::empty({grouped ? 2 * k.size(0) : 0, q.size(1), width}, q.options());
  return {dq, dk, dv};
}

// q [B, H, Q, d], k [B, Hk, K, d]. cuDNN's own memory was not looked up: as flash attention's, which it is no more than
// on an H200 (docs/gpu.md).
std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor> cudnn_forward(
    const Tensor& q, const Tensor&, const Tensor&, const MaybeTensor&, const MaybeTensor&, const MaybeTensor&,
    c10::SymInt max_q, c10::SymInt max_k, bool, double, bool, bool, std::optional<double>) {
  const auto number = [&] { return at::empty({}, q.options().dtype(at::kLong)); };
  const Tensor sums = at::empty({q.size(0), q.size(1), q.size(2), 1}, q.options().dtype(at::kFloat));
  return {at::empty_like(q), sums, Tensor(), Tensor(), max_q, max_k, number(), number(), Tensor()};
}

std::tuple<Tensor, Tensor, Tensor> cudnn_backward(const Tensor&, const Tensor& q, const Tensor& k, const Tensor& v,
                                                  const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                                  const Tensor&, const Tensor&, const Tensor&, c10::SymInt, c10::SymInt,
                                                  double, bool, std::optional<double>) {
  const Tensor dq = at::empty_like(q), dk = at::empty_like(k), dv = at::empty_like(v);
  const auto in_fp32 = q.options().dtype(at::kFloat);
  const Tensor sums = at::empty({q.size(0), q.size(1), q.size(2)}, in_fp32),
               accumulated = at::empty(q.sizes(), in_fp32);
  const Tensor expanded =
      at::empty({q.size(1) != k.size(1) ? 2 * q.size(0) : 0, q.size(1), k.size(2), k.size(3)}, q.options());
  return {dq, dk, dv};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt> efficient_forward(
    const Tensor& q, const Tensor& k, const Tensor&, const MaybeTensor&, const MaybeTensor& starts_q,
    const MaybeTensor&, MaybeInt max_q, MaybeInt max_k, double, int64_t, bool, std::optional<double>,
    const MaybeTensor&, MaybeInt) {
  const int64_t samples = starts_q ? starts_q->size(0) - 1 : q.size(0), queries = max_q.value_or(q.size(1));
  const Tensor sums = at::empty({samples, q.size(2), round_up(queries, 32)}, q.options().dtype(at::kFloat));
  const auto on_host = at::TensorOptions(at::kLong);
  return {at::empty(q.sizes(), q.options()), sums, at::empty({}, on_host), at::empty({}, on_host), queries,
          max_k.value_or(k.size(1))};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> efficient_backward(const Tensor& grad, const Tensor& q, const Tensor& k,
                                                              const Tensor& v, const MaybeTensor&, const Tensor&,
                                                              const MaybeTensor&, const MaybeTensor&, int64_t, int64_t,
                                                              const Tensor&, double, const Tensor&, const Tensor&,
                                                              int64_t, bool learns_bias, std::optional<double>,
                                                              MaybeInt, MaybeInt, bool) {
  const Tensor own = grad.contiguous(), dq = at::empty(q.sizes(), q.options()), dk = at::empty(k.sizes(), k.options()),
               dv = at::empty(v.sizes(), v.options());
  Tensor dbias;
  if (learns_bias)
    dbias = at::empty({q.size(0), q.size(2), q.size(1), round_up(k.size(1), 16)}, q.options()).narrow(3, 0, k.size(1));
  const Tensor delta = at::empty({q.size(0), q.size(2), q.size(1)}, q.options().dtype(at::kFloat));
  return {dq, dk, dv, dbias};
}

}  // namespace

void add_attention_shapes(torch::Library& shapes) {
  shapes.impl("_flash_attention_forward", flash_forward);
  shapes.impl("_flash_attention_backward", flash_backward);
  shapes.impl("_cudnn_attention_forward", cudnn_forward);
  shapes.impl("_cudnn_attention_backward", cudnn_backward);
  shapes.impl("_efficient_attention_forward", efficient_forward);
  shapes.impl("_efficient_attention_backward", efficient_backward);
}

}  // namespace trainer::dist
