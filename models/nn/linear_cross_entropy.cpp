#include "models/nn/linear_cross_entropy.h"

#include <algorithm>
#include <cstdlib>
#include <typeinfo>

#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "models/nn/cross_entropy.h"
#include "models/nn/device/layout_tensors.h"
#include "models/nn/kernel.h"
#include "models/nn/reference/reference.h"
#include "models/nn/saved.h"
#include "models/nn/soft_cap.h"
#include "models/nn/stored_weight.h"
#include "models/nn/weight_gradient.h"

namespace trainer::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Note [Chunks of the loss]
// The logits of a large vocabulary are the largest activation of a model, and their gradient is as large. So the head
// and the loss run on one chunk of rows after another, in one buffer: logits, losses, then the gradient in place of the
// logits, and from it the gradients of the rows and of the weight. Backward only multiplies these by the ratio of the
// gradient it is given to the one that forward assumed (Pass::loss_grad). In training the ratio is 1: fp16's loss scale
// applies before anything is rounded, and a loss of one chunk has the bits of separate layers. The products of several
// chunks may round differently. Source: the idea is that of Liger Kernel's fused linear cross-entropy.
//
// A loss that isn't the sum of its rows' losses (Pass::rows_to_loss) weighs the gradients of rows by all of their
// losses. So all losses come first, and then the gradients, for which the logits of several chunks are computed again.
//
// Small chunks read the weight, and write its gradient, more often: each product makes as many FLOPs per element of the
// weight as it has rows, times two. On one core of a CPU, 256 rows of 512 to 32,128 values in fp32 are as fast as 512,
// 128 are 5 to 14 % slower, 32 are 50 to 60 % (tools/bench/head_loss.cpp). An H100 reaches its FLOP/s in bf16 from 300
// FLOPs per byte of the weight on, that is from 300 rows, and needs several times as many where it adds up the weight's
// gradient in fp32.

/// Of `rows`, in as few chunks as `most` allows.
int64_t rows_of_chunk(int64_t rows, int64_t most) {
  const int64_t chunks = std::max<int64_t>(1, (rows + most - 1) / most);
  return (rows + chunks - 1) / chunks;
}

struct State {
  double soft_cap;
  float loss_grad;
  at::Tensor factor;  // the same where the rows are; undefined if no gradient is wanted
  ParameterPtr weight;
  int64_t most_rows;        // of a chunk
  bool of_rows, of_weight;  // which gradients are wanted
  RowsToLoss rows_to_loss;
};

class Chunks {
 public:
  Chunks(const at::Tensor& x, const at::Tensor& value, const Targets& targets, const State& state)
      : x_(x),
        targets_(targets),
        state_(state),
        rows_(x.size(0)),
        size_(rows_of_chunk(rows_, state.most_rows)),
        words_(value.size(0)),
        weight_(value, state.weight->storage, x.narrow(0, 0, std::min(size_, rows_))) {
    if (state.of_rows) x_grad = at::empty_like(x);
    if (state.of_weight && rows_ == 0) weight_grad = at::zeros({words_, x.size(1)}, x.options());
  }

  /// The loss of all rows, a scalar fp64.
  at::Tensor run() {
    const bool wanted = state_.of_rows || state_.of_weight, at_once = wanted && !state_.rows_to_loss;
    const at::Tensor losses = at::empty({rows_}, x_.options().dtype(at::kDouble)),
                     log_sums = at::empty({rows_}, x_.options().dtype(at::kFloat)),
                     buffer = at::empty({size_, words_}, x_.options());
    const auto for_each_chunk = [&](const auto& work) {
      for (int64_t first = 0; first < rows_; first += size_) {
        const int64_t count = std::min(size_, rows_ - first);
        work(first, count, buffer.narrow(0, 0, count));
      }
    };
    for_each_chunk([&](int64_t first, int64_t count, const at::Tensor& logits) {
      compute_logits(first, count, logits);
      const auto [loss, log_sum] = row_losses(logits, targets_.rows(first, count));
      losses.narrow(0, first, count).copy_(loss);
      if (at_once)
        add_gradients(first, count, logits, log_sum);
      else
        log_sums.narrow(0, first, count).copy_(log_sum);
    });
    const LossOfRows loss = loss_of_rows(state_.rows_to_loss, losses);
    weights_ = loss.weights;
    if (wanted && !at_once)
      for_each_chunk([&](int64_t first, int64_t count, const at::Tensor& logits) {
        if (size_ < rows_) compute_logits(first, count, logits);
        add_gradients(first, count, logits, log_sums.narrow(0, first, count));
      });
    return loss.sum;
  }

  at::Tensor x_grad;       // [U, D]
  at::Tensor weight_grad;  // [V, D]

 private:
  void compute_logits(int64_t first, int64_t count, at::Tensor logits) const {
    weight_.multiply(x_.narrow(0, first, count), /*transposed=*/true, logits);
    if (state_.soft_cap > 0) soft_cap_(logits, state_.soft_cap);
  }

  void add_gradients(int64_t first, int64_t count, const at::Tensor& logits, const at::Tensor& log_sum) {
    const bool capped = state_.soft_cap > 0;
    const at::Tensor slopes =
        row_slopes(logits, targets_.rows(first, count), log_sum, state_.factor, /*in_place=*/!capped);
    if (weights_.defined()) slopes.mul_(weights_.narrow(0, first, count).unsqueeze(1));
    if (capped) soft_cap_backward_(slopes, logits, state_.soft_cap);
    if (state_.of_rows) {
      at::Tensor to = x_grad.narrow(0, first, count);
      weight_.multiply(slopes, /*transposed=*/false, to);
    }
    if (state_.of_weight) add_to_weight_grad(slopes, x_.narrow(0, first, count));
  }

  /// The sum over chunks is in fp32.
  void add_to_weight_grad(const at::Tensor& slopes, const at::Tensor& x) {
    if (!weight_grad.defined()) {
      weight_grad = at::mm(slopes.t(), x);
    } else if (x.scalar_type() == at::kFloat) {
      weight_grad.addmm_(slopes.t(), x);
    } else {
      weight_grad = weight_grad.to(at::kFloat);
      weight_grad.add_(at::mm(slopes.t(), x));
    }
  }

  const at::Tensor& x_;
  const Targets& targets_;
  const State& state_;
  at::Tensor weights_;           // of the rows' gradients, [U]; undefined: 1
  int64_t rows_, size_, words_;  // size_: rows of a chunk
  StoredWeight weight_;
};

/// Saves gradients, and no logits.
struct LinearCrossEntropy : torch::autograd::Function<LinearCrossEntropy> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& given, const at::Tensor& value,
                            const Targets& targets, const State& state) {
    const at::Tensor x = given.contiguous();
    Chunks chunks(x, value, targets, state);
    const at::Tensor loss = chunks.run();
    ctx->save_for_backward({chunks.x_grad, chunks.weight_grad});
    ctx->saved_data["rows"] = x.size(0);
    keep(ctx, state);
    return loss.to(at::kFloat);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto& state = kept<State>(ctx);
    auto saved = ctx->get_saved_variables();
    at::Tensor &x_grad = saved[0], &weight_grad = saved[1];
    const at::Tensor& weight = state.weight->value;
    if (weight_grad.defined()) weight_grad = weight_grad.to(weight.scalar_type());
    if (ctx->saved_data["rows"].toInt() > 0 && differs(grads[0], state.loss_grad))
      for (const at::Tensor& computed : saved)
        if (computed.defined()) computed.mul_(grads[0] / state.factor);
    if (weight_grad.defined() && takes_gradient_in_place(weight)) {
      add_to_gradient(*state.weight, weight_grad);
      weight_grad = no_rows(weight);
    }
    return {x_grad, weight_grad, at::Tensor(), at::Tensor()};
  }

  /// Whether `grad` may not be what was assumed: the host doesn't wait for a device to tell.
  static bool differs(const at::Tensor& grad, float assumed) {
    if (on_device(grad)) return true;
    return !grad.is_meta() && grad.item<float>() != assumed;
  }
};

/// TRAINER_LOSS_ROWS, with which tests make chunks of small models; or as many rows as the note says. Equal on all
/// tensor-parallel ranks, whose widths may differ by one.
int64_t most_rows(const at::Tensor& x, const Vocabulary& vocabulary) {
  static const char* const asked = std::getenv("TRAINER_LOSS_ROWS");
  if (asked != nullptr) return std::max<int64_t>(1, std::atoll(asked));
  const int64_t ranks = vocabulary.group ? vocabulary.group->size() : 1, width = (vocabulary.whole + ranks - 1) / ranks;
  const bool device = on_device(x);
  const int64_t budget = (device ? int64_t{256} : int64_t{16}) << 20, least = device ? 1024 : 256;
  return std::max(least, budget / (width * static_cast<int64_t>(x.element_size())));
}

/// Leaves out the rows whose label is ignored, where the host knows the labels.
void leave_out_ignored(at::Tensor& x, at::Tensor& labels) {
  if (!labels.is_cpu()) return;
  labels = labels.contiguous();
  const auto* const label = labels.const_data_ptr<int64_t>();
  const int64_t learned = labels.numel() - std::count(label, label + labels.numel(), kIgnored);
  if (learned == labels.numel()) return;
  const at::Tensor rows = device::host_memory({learned}, at::kLong, x.device());
  for (int64_t row = 0, next = 0; row < labels.numel(); ++row)
    if (label[row] != kIgnored) rows.data_ptr<int64_t>()[next++] = row;
  labels = at::index_select(labels, 0, rows);
  x = at::index_select(x, 0, device::sent(rows, x.device()));
}

at::Tensor loss_grad_of(const Pass& pass, at::Device device) {
  if (pass.device_loss_grad.defined()) return pass.device_loss_grad;
  return at::full({}, pass.loss_grad, at::TensorOptions(at::kFloat).device(device));
}

/// An adapter of the head has a forward of its own, and its dropout draws by row; a bias isn't worth its gradient here.
/// Those heads compute all logits.
bool runs_in_chunks(const Linear& head) {
  return typeid(head) == typeid(Linear) && head.bias() == nullptr && head.stored() == Linear::Stored::kOutIn;
}

}  // namespace

at::Tensor linear_cross_entropy_sum(Linear& head, const Rows& given, const at::Tensor& given_labels,
                                    const Pass& given_pass, const HeadLoss& options) {
  if (!runs_in_chunks(head)) {
    const at::Tensor logits = head(given, given_pass).x;
    return cross_entropy_sum(options.soft_cap > 0 ? soft_cap(logits, options.soft_cap) : logits, given_labels,
                             given_pass.label_smoothing, options.shared, given_pass.rows_to_loss);
  }
  Rows x = given;
  at::Tensor labels = given_labels;
  leave_out_ignored(x.x, labels);
  Pass pass = given_pass;
  pass.compute = head.weight()->computed_in(pass.compute);
  return head
      .run({x}, pass,
           [&](const RowsList& in, const Pass& p) {
             const ParameterPtr weight = head.weight();
             const at::Tensor rows = in[0].x.to(p.compute);
             const int64_t width = weight->shape[0];
             const Targets targets = targets_of(labels, rows.device(), width, p.label_smoothing, options.shared);
             const bool of_rows = at::GradMode::is_enabled() && rows.requires_grad();
             const bool of_weight = at::GradMode::is_enabled() && weight->value.requires_grad();
             const State state{
                 .soft_cap = options.soft_cap,
                 .loss_grad = p.loss_grad,
                 .factor = of_rows || of_weight ? loss_grad_of(p, rows.device()) : at::Tensor(),
                 .weight = weight,
                 .most_rows = options.rows_of_chunk > 0 ? options.rows_of_chunk : most_rows(rows, targets.vocabulary),
                 .of_rows = of_rows,
                 .of_weight = of_weight,
                 .rows_to_loss = p.rows_to_loss};
             return RowsList{Rows{LinearCrossEntropy::apply(rows, weight->value, targets, state)}};
           })[0]
      .x;
}

}  // namespace trainer::nn
