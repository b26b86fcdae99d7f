#include "engine/adapters/combine.h"

#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/linalg_svd.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sign.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

namespace trainer::adapters {
namespace {

using Prune = config::Combination::Prune;

/// `tensor` with only the share `density` of its values that are largest in magnitude.
at::Tensor largest(const at::Tensor& tensor, double density) {
  const auto kept = static_cast<int64_t>(density * static_cast<double>(tensor.numel()));
  at::Tensor mask = at::zeros_like(tensor).view(-1);
  mask.index_fill_(0, std::get<1>(at::topk(at::abs(tensor).view(-1), kept)), 1);
  return tensor * mask.view_as(tensor);
}

at::Tensor pruned(const at::Tensor& tensor, const CombineRule& rule) {
  if (rule.how.prune == Prune::kNone || rule.density >= 1) return tensor;
  if (rule.how.prune == Prune::kMagnitude) return largest(tensor.contiguous(), rule.density);
  return tensor * rule.draw_mask(tensor, rule.density) / rule.density;
}

/// Whether each value of `stacked` [N, …] has the sign of the majority along N, where 0 counts as positive.
at::Tensor has_majority_sign(const at::Tensor& stacked, bool by_frequency) {
  const at::Tensor sign = at::sign(stacked);
  const at::Tensor total = at::sum(by_frequency ? sign : stacked, 0);
  return sign == at::where(total >= 0, 1, -1);
}

/// `pair` with zeros up to `rank`.
LowRank padded(const LowRank& pair, int64_t rank) {
  at::Tensor a = at::zeros({rank, pair.a.size(1)}), b = at::zeros({pair.b.size(0), rank});
  a.narrow(0, 0, pair.a.size(0)).copy_(pair.a);
  b.narrow(1, 0, pair.b.size(1)).copy_(pair.b);
  return {a, b};
}

/// [factor A; …] and [B, …], whose product is the weighted sum of the products.
LowRank concatenated(const std::vector<WeightedPair>& pairs) {
  std::vector<at::Tensor> a, b;
  for (const WeightedPair& one : pairs) a.push_back(one.pair.a * one.factor()), b.push_back(one.pair.b);
  return {at::cat(a, 0), at::cat(b, 1)};
}

/// The first `rank` singular vectors of `product` [out, in], or all of them: A is Vh, B is U S.
LowRank decomposed(const at::Tensor& product, int64_t rank) {
  const auto [u, s, vh] = at::linalg_svd(product, /*full_matrices=*/false);
  const int64_t kept = std::min(rank, s.size(0));
  return {vh.narrow(0, 0, kept), u.narrow(1, 0, kept) * s.narrow(0, 0, kept)};
}

/// The same of the product b a, by way of a matrix that has the size of its rank.
LowRank decomposed(const LowRank& sum, int64_t rank) {
  const auto [q_out, r_out] = at::linalg_qr(sum.b);
  const auto [q_in, r_in] = at::linalg_qr(sum.a.t());
  const LowRank core = decomposed(at::mm(r_out, r_in.t()), rank);
  return {at::mm(core.a, q_in.t()), at::mm(q_out, core.b)};
}

LowRank decomposed(const std::vector<WeightedPair>& pairs, int64_t rank, const CombineRule& rule) {
  if (rule.how.prune == Prune::kNone) return decomposed(concatenated(pairs), rank);
  std::vector<at::Tensor> products;
  std::vector<double> weights;
  for (const WeightedPair& one : pairs) products.push_back(at::mm(one.pair.b, one.pair.a) * one.scale);
  for (const WeightedPair& one : pairs) weights.push_back(one.weight);
  return decomposed(combine(std::move(products), weights, rule), rank);
}

/// Each of A and B gets the root of a factor, and A its sign.
LowRank separately(const std::vector<WeightedPair>& pairs, const CombineRule& rule) {
  std::vector<at::Tensor> a, b;
  std::vector<double> for_a, for_b;
  for (const WeightedPair& one : pairs) {
    a.push_back(one.pair.a), b.push_back(one.pair.b);
    for_b.push_back(std::sqrt(std::abs(one.factor())));
    for_a.push_back(std::copysign(for_b.back(), one.factor()));
  }
  return {combine(std::move(a), for_a, rule), combine(std::move(b), for_b, rule)};
}

/// The squared norm of b a, of which neither may be large in both dimensions.
double squared_norm(const LowRank& pair) {
  const at::Tensor a = pair.a.to(at::kDouble), b = pair.b.to(at::kDouble);
  return (at::mm(b.t(), b) * at::mm(a, a.t())).sum().item<double>();
}

}  // namespace

at::Tensor combine(std::vector<at::Tensor> tensors, const std::vector<double>& weights, const CombineRule& rule) {
  for (at::Tensor& tensor : tensors) tensor = pruned(tensor, rule);
  const at::Tensor stacked = at::stack(tensors);
  std::vector<int64_t> shape(static_cast<size_t>(stacked.dim()), 1);
  shape[0] = stacked.size(0);
  const at::Tensor weighted = stacked * at::tensor(weights, at::kFloat).view(shape);
  if (!rule.how.elects_sign) return weighted.sum(0);
  const at::Tensor counts = has_majority_sign(stacked, rule.sign_by_frequency);
  return (weighted * counts).sum(0) / counts.sum(0).clamp_min(1);
}

LowRank combine(const std::vector<WeightedPair>& pairs, int64_t rank, const CombineRule& rule) {
  if (rule.how.concatenates) return padded(concatenated(pairs), rank);
  if (rule.how.decomposes) return padded(decomposed(pairs, rank, rule), rank);
  return padded(separately(pairs, rule), rank);
}

SumError error_of(const LowRank& combined, const std::vector<WeightedPair>& pairs) {
  const LowRank sum = concatenated(pairs);
  const LowRank difference{at::cat({sum.a, combined.a}, 0), at::cat({sum.b, -combined.b}, 1)};
  return {squared_norm(sum), std::max(0.0, squared_norm(difference))};
}

}  // namespace trainer::adapters
