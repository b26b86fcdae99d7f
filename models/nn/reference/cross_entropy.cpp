#include "models/nn/reference/cross_entropy.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros_like.h>

namespace trainer::nn::reference {
namespace {

/// The positions of the labels' logits among `width` logits that begin at `begin`.
struct LabelPlaces {
  at::Tensor column;     // [U, 1]; arbitrary if another rank has the label
  at::Tensor elsewhere;  // [U] bool
};
LabelPlaces places_of(const at::Tensor& labels, int64_t begin, int64_t width) {
  const at::Tensor place = labels - begin;
  return {place.clamp(0, width - 1).unsqueeze(1), place.lt(0) | place.ge(width)};
}

}  // namespace

at::Tensor row_sums(const at::Tensor& logits, const Targets& targets) {
  const LabelPlaces places = places_of(targets.labels, targets.vocabulary.begin, logits.size(1));
  const at::Tensor x = logits.to(at::kFloat), largest = at::amax(x, {1}, /*keepdim=*/true);
  const at::Tensor label = at::gather(x, 1, places.column).squeeze(1).masked_fill(places.elsewhere, 0);
  const at::Tensor all =
      targets.smoothing > 0 ? at::sum(x, at::IntArrayRef{1}, /*keepdim=*/false, at::kDouble) : at::zeros_like(label);
  const at::Tensor shifted = x.is_same(logits) ? x - largest : x.sub_(largest);
  const at::Tensor exp = at::sum(shifted.exp_(), at::IntArrayRef{1}, /*keepdim=*/false, at::kDouble);
  return at::stack({largest.squeeze(1).to(at::kDouble), exp, label.to(at::kDouble), all.to(at::kDouble)}, 1);
}

at::Tensor row_slopes(const at::Tensor& logits, const Targets& targets, const at::Tensor& log_sum,
                      const at::Tensor& factor, bool in_place) {
  const LabelPlaces places = places_of(targets.labels, targets.vocabulary.begin, logits.size(1));
  const double everywhere = targets.smoothing / static_cast<double>(targets.vocabulary.whole);
  at::Tensor slope = logits.to(at::kFloat, /*non_blocking=*/false, /*copy=*/!in_place);
  slope.sub_(log_sum.unsqueeze(1)).exp_().sub_(everywhere);
  const at::Tensor own = at::zeros_like(log_sum).sub_(1 - targets.smoothing).masked_fill_(places.elsewhere, 0);
  slope.scatter_add_(1, places.column, own.unsqueeze(1));
  slope.mul_(factor).masked_fill_(targets.labels.eq(kIgnored).unsqueeze(1), 0);
  if (slope.scalar_type() == logits.scalar_type()) return slope;
  return in_place ? logits.copy_(slope) : slope.to(logits.scalar_type());
}

}  // namespace trainer::nn::reference
