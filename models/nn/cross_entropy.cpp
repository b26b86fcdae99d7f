#include "models/nn/cross_entropy.h"

#include <ATen/TensorOperators.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include "engine/base/errors.h"
#include "models/nn/kernel.h"
#include "models/nn/saved.h"

namespace trainer::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Saves the logits and one value per row; the gradient is the only other tensor of the logits' size.
struct CrossEntropy : torch::autograd::Function<CrossEntropy> {
  struct State {
    double smoothing;
    Vocabulary vocabulary;
  };

  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& given, const Targets& targets,
                            const RowsToLoss& convert) {
    const at::Tensor logits = given.contiguous();
    const auto [losses, log_sum] = row_losses(logits, targets);
    const LossOfRows loss = loss_of_rows(convert, losses);
    ctx->save_for_backward({logits, targets.labels, log_sum, loss.weights});
    keep<State>(ctx, {targets.smoothing, targets.vocabulary});
    return loss.sum.to(at::kFloat);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const State& state = kept<State>(ctx);
    const Targets targets{saved[1], state.smoothing, state.vocabulary};
    const at::Tensor slopes =
        row_slopes(saved[0], targets, saved[2], grads[0].to(at::kFloat).contiguous(), /*in_place=*/false);
    if (saved[3].defined()) slopes.mul_(saved[3].unsqueeze(1));
    return {slopes, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

void check_labels(const at::Tensor& labels, int64_t classes) {
  const int64_t rows = rows_to_compute(labels, labels.numel());
  for (int64_t row = 0; row < rows; ++row)
    if (const int64_t label = labels.const_data_ptr<int64_t>()[row];
        label != kIgnored && (label < 0 || label >= classes))
      throw InternalError(
          fmt::format("row {} of a batch has label {}, but the model has {} outputs", row, label, classes));
}

Targets targets_of(const at::Tensor& labels, at::Device device, int64_t width, double label_smoothing,
                   const PartitionedVocabulary* shared) {
  Vocabulary vocabulary{0, width, nullptr};
  if (shared != nullptr) vocabulary = {shared->mine.begin, shared->whole, shared->group};
  if (labels.is_cpu()) check_labels(labels.contiguous(), vocabulary.whole);
  return {labels.to(device, /*non_blocking=*/true).contiguous(), label_smoothing, std::move(vocabulary)};
}

at::Tensor cross_entropy_sum(const at::Tensor& logits, const at::Tensor& labels, double label_smoothing,
                             const PartitionedVocabulary* shared, const RowsToLoss& convert) {
  return CrossEntropy::apply(logits, targets_of(labels, logits.device(), logits.size(1), label_smoothing, shared),
                             convert);
}

}  // namespace trainer::nn
