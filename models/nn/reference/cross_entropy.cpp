#include "models/nn/reference/cross_entropy.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/log.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "models/nn/cross_entropy.h"
#include "models/nn/saved.h"

namespace trainer::nn::reference {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The positions of the labels' logits among `width` logits that begin at `begin`.
struct LabelPlaces {
  at::Tensor column;     // [U, 1]; arbitrary if another rank has the label
  at::Tensor elsewhere;  // [U] bool
};
LabelPlaces places_of(const at::Tensor& labels, int64_t begin, int64_t width) {
  const at::Tensor place = labels - begin;
  return {place.clamp(0, width - 1).unsqueeze(1), place.lt(0) | place.ge(width)};
}

/// The RowSums of each row: [U, 4] fp64.
at::Tensor row_sums(const at::Tensor& logits, const LabelPlaces& places, bool smooth) {
  const at::Tensor x = logits.to(at::kFloat), largest = at::amax(x, {1}, /*keepdim=*/true);
  const at::Tensor exp = at::sum((x - largest).exp_(), at::IntArrayRef{1}, /*keepdim=*/false, at::kDouble);
  const at::Tensor label = at::gather(x, 1, places.column).squeeze(1).masked_fill(places.elsewhere, 0);
  const at::Tensor all = smooth ? at::sum(x, at::IntArrayRef{1}, /*keepdim=*/false, at::kDouble) : at::zeros_like(exp);
  return at::stack({largest.squeeze(1).to(at::kDouble), exp, label.to(at::kDouble), all}, 1);
}

/// Like nn's kernel, it saves the logits and one value per row.
struct CrossEntropy : torch::autograd::Function<CrossEntropy> {
  struct State {
    double smoothing;
    Vocabulary vocabulary;
  };

  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& logits, const at::Tensor& given, double smoothing,
                            const Vocabulary& vocabulary) {
    const at::Tensor labels = given.to(logits.device(), /*non_blocking=*/true);
    const at::Tensor sums = row_sums(logits, places_of(labels, vocabulary.begin, logits.size(1)), smoothing > 0);
    if (vocabulary.group) add_up(*vocabulary.group, sums);
    const at::Tensor log_sum = sums.select(1, 0) + sums.select(1, 1).log();
    at::Tensor loss = (1 - smoothing) * (log_sum - sums.select(1, 2));
    if (smoothing > 0) loss += smoothing * (log_sum - sums.select(1, 3) / static_cast<double>(vocabulary.whole));
    ctx->save_for_backward({logits, labels, log_sum.to(at::kFloat)});
    keep<State>(ctx, {smoothing, vocabulary});
    return loss.masked_fill(labels.eq(kIgnored), 0).sum().to(at::kFloat);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const auto &logits = saved[0], &labels = saved[1], &log_sum = saved[2];
    const State& state = kept<State>(ctx);
    const LabelPlaces places = places_of(labels, state.vocabulary.begin, logits.size(1));
    const double everywhere = state.smoothing / static_cast<double>(state.vocabulary.whole);
    at::Tensor slope = (logits.to(at::kFloat) - log_sum.unsqueeze(1)).exp_().sub_(everywhere);
    const at::Tensor own = at::zeros_like(log_sum).sub_(1 - state.smoothing).masked_fill_(places.elsewhere, 0);
    slope.scatter_add_(1, places.column, own.unsqueeze(1));
    slope.mul_(grads[0]).masked_fill_(labels.eq(kIgnored).unsqueeze(1), 0);
    return {slope.to(logits.scalar_type()), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor cross_entropy_sum(const at::Tensor& logits, const at::Tensor& labels, double label_smoothing,
                             const Vocabulary& vocabulary) {
  return CrossEntropy::apply(logits, labels, label_smoothing, vocabulary);
}

}  // namespace trainer::nn::reference
