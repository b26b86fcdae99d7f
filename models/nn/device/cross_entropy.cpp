#include "models/nn/device/cross_entropy.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "models/nn/cross_entropy.h"
#include "models/nn/saved.h"

namespace trainer::nn::device {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct DeviceCrossEntropy : torch::autograd::Function<DeviceCrossEntropy> {
  struct State {
    const DeviceKernels* kernels;
    double smoothing;
    Vocabulary vocabulary;
  };

  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& given, const at::Tensor& labels_in,
                            double smoothing, const Vocabulary& vocabulary, const DeviceKernels* kernels) {
    const at::Tensor logits = given.contiguous(),
                     labels = labels_in.to(given.device(), /*non_blocking=*/true).contiguous();
    const at::Tensor sums = at::empty({logits.size(0), 4}, logits.options().dtype(at::kDouble));
    kernels->cross_entropy_sums(*element_type(logits.scalar_type()), logits.const_data_ptr(),
                                labels.const_data_ptr<int64_t>(), vocabulary.begin, logits.size(0), logits.size(1),
                                smoothing > 0, sums.data_ptr<double>(), stream_of(*kernels, logits));
    if (vocabulary.group) add_up(*vocabulary.group, sums);
    const at::Tensor log_sum = sums.select(1, 0) + sums.select(1, 1).log();
    at::Tensor loss = (1 - smoothing) * (log_sum - sums.select(1, 2));
    if (smoothing > 0) loss += smoothing * (log_sum - sums.select(1, 3) / static_cast<double>(vocabulary.whole));
    ctx->save_for_backward({logits, labels, log_sum.to(at::kFloat)});
    keep<State>(ctx, {kernels, smoothing, vocabulary});
    return loss.masked_fill(labels.eq(kIgnored), 0).sum().to(at::kFloat);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &logits = saved[0], &labels = saved[1], &log_sum = saved[2];
    const State& state = kept<State>(ctx);
    const at::Tensor grad = grads[0].to(at::kFloat).contiguous();
    at::Tensor out = at::empty_like(logits);
    state.kernels->cross_entropy_gradient(
        *element_type(logits.scalar_type()), logits.const_data_ptr(), labels.const_data_ptr<int64_t>(),
        log_sum.const_data_ptr<float>(), grad.const_data_ptr<float>(), static_cast<float>(1 - state.smoothing),
        static_cast<float>(state.smoothing / static_cast<double>(state.vocabulary.whole)), state.vocabulary.begin,
        logits.size(0), logits.size(1), out.data_ptr(), stream_of(*state.kernels, logits));
    return {out, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor cross_entropy_sum(const DeviceKernels& kernels, const at::Tensor& logits, const at::Tensor& labels,
                             double label_smoothing, const Vocabulary& vocabulary) {
  return DeviceCrossEntropy::apply(logits, labels, label_smoothing, vocabulary, &kernels);
}

}  // namespace trainer::nn::device
