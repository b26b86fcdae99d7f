#include "models/nn/cross_entropy.h"

#include <limits>

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include "engine/base/errors.h"
#include "models/nn/device/cross_entropy.h"
#include "models/nn/fast_math.h"
#include "models/nn/kernel.h"
#include "models/nn/reference/cross_entropy.h"
#include "models/nn/reference/reference.h"
#include "models/nn/saved.h"

namespace trainer::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kChunk = 1024;  // values summed in fp32; the sums of chunks are added in fp64

TRAINER_KERNEL float largest_of(const float* x, int64_t n) {
  float largest = -std::numeric_limits<float>::infinity();
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
  return largest;
}

TRAINER_KERNEL float sum_of_exp(const float* x, float shift, int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += fast_exp(x[i] - shift);
  return sum;
}

TRAINER_KERNEL float sum_of(const float* x, int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += x[i];
  return sum;
}

/// out = scale * (softmax(x) - everywhere).
TRAINER_KERNEL void slope_row(const float* x, float log_sum, float scale, float everywhere, int64_t n, float* out) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = scale * (fast_exp(x[i] - log_sum) - everywhere);
}

TRAINER_KERNEL void widen(const at::BFloat16* x, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(x[i]);
}
TRAINER_KERNEL void narrow(const float* x, int64_t n, at::BFloat16* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<at::BFloat16>(x[i]);
}
template <class T>
void widen(const T* x, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(x[i]);
}
template <class T>
void narrow(const float* x, int64_t n, T* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(x[i]);
}

template <class F>
double sum_by_chunks(const float* x, int64_t n, const F& sum_of_chunk) {
  double sum = 0;
  for (int64_t i = 0; i < n; i += kChunk) sum += sum_of_chunk(x + i, std::min(kChunk, n - i));
  return sum;
}

RowSums row_sums(const float* x, int64_t n, int64_t place, bool smooth) {
  const float shift = largest_of(x, n);
  RowSums sums{shift,
               sum_by_chunks(x, n, [&](const float* part, int64_t size) { return sum_of_exp(part, shift, size); })};
  if (place >= 0) sums.label = x[place];
  if (smooth) sums.all = sum_by_chunks(x, n, sum_of);
  return sums;
}

struct RowLoss {
  float log_sum, loss;  // log of the sum of e^x; the row's term of the loss
};

RowLoss row_loss(const RowSums& sums, int64_t vocabulary, double smoothing) {
  const double log_sum = sums.largest + std::log(sums.exp);
  double loss = (1 - smoothing) * (log_sum - sums.label);
  if (smoothing > 0) loss += smoothing * (log_sum - sums.all / static_cast<double>(vocabulary));
  return {static_cast<float>(log_sum), static_cast<float>(loss)};
}

/// Calls f(row, label, its logits as fp32, scratch of a row) for every row of `logits` [U, V], including ignored rows.
template <class T, class F>
void for_each_row(const at::Tensor& logits, const at::Tensor& labels, const F& f) {
  const int64_t width = logits.size(1), rows = rows_to_compute(logits, logits.size(0));
  at::parallel_for(0, rows, std::max<int64_t>(1, 32768 / std::max<int64_t>(width, 1)),
                   [&](int64_t first, int64_t last) {
                     std::vector<float> wide(std::is_same_v<T, float> ? 0 : width), scratch(width);
                     for (int64_t row = first; row < last; ++row) {
                       const T* const x = logits.const_data_ptr<T>() + row * width;
                       const int64_t label = labels.const_data_ptr<int64_t>()[row];
                       if constexpr (std::is_same_v<T, float>) {
                         f(row, label, x, scratch);
                       } else {
                         if (label != kIgnored) widen(x, width, wide.data());
                         f(row, label, wide.data(), scratch);
                       }
                     }
                   });
}

void check_labels(const at::Tensor& labels, int64_t classes) {
  const int64_t rows = rows_to_compute(labels, labels.numel());
  for (int64_t row = 0; row < rows; ++row)
    if (const int64_t label = labels.const_data_ptr<int64_t>()[row];
        label != kIgnored && (label < 0 || label >= classes))
      throw InternalError(
          fmt::format("row {} of a batch has label {}, but the model has {} outputs", row, label, classes));
}

/// Saves the logits and one value per row; the gradient is the only other tensor of the logits' size.
struct CrossEntropy : torch::autograd::Function<CrossEntropy> {
  struct State {
    double smoothing;
    Vocabulary vocabulary;
  };

  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& logits_in, const at::Tensor& labels_in,
                            double smoothing, const Vocabulary& vocabulary) {
    const auto logits = logits_in.contiguous(), labels = labels_in.contiguous();
    const int64_t width = logits.size(1), rows = logits.size(0);
    const auto options = logits.options().dtype(at::kFloat);
    at::Tensor log_sums = at::empty({rows}, options), sum = at::empty({}, options);
    const at::Tensor sums = at::zeros({rows, RowSums::kNumbers}, options.dtype(at::kDouble));
    auto* const of_rows = static_cast<RowSums*>(sums.data_ptr());
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, logits.scalar_type(), "cross_entropy", [&] {
      for_each_row<scalar_t>(logits, labels, [&](int64_t row, int64_t label, const float* x, std::vector<float>&) {
        if (label != kIgnored) of_rows[row] = row_sums(x, width, vocabulary.place(label, width), smoothing > 0);
      });
    });
    if (vocabulary.group) add_up(*vocabulary.group, sums);
    double total = 0;
    for (int64_t row = 0; row < rows_to_compute(logits, rows); ++row) {
      if (labels.const_data_ptr<int64_t>()[row] == kIgnored) continue;
      const RowLoss found = row_loss(of_rows[row], vocabulary.whole, smoothing);
      log_sums.data_ptr<float>()[row] = found.log_sum;
      total += found.loss;
    }
    if (!sum.is_meta()) *sum.data_ptr<float>() = static_cast<float>(total);
    ctx->save_for_backward({logits, labels, log_sums});
    keep<State>(ctx, {smoothing, vocabulary});
    return sum;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const auto &logits = saved[0], &labels = saved[1], &log_sums = saved[2];
    const int64_t width = logits.size(1);
    const State& state = kept<State>(ctx);
    const Vocabulary& vocabulary = state.vocabulary;
    const auto smoothing = static_cast<float>(state.smoothing);
    const float everywhere = smoothing / static_cast<float>(vocabulary.whole);
    at::Tensor slope = at::empty_like(logits);
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, logits.scalar_type(), "cross_entropy", [&] {
      for_each_row<scalar_t>(logits, labels, [&](int64_t row, int64_t label, const float* x, std::vector<float>& out) {
        scalar_t* const to = slope.data_ptr<scalar_t>() + row * width;
        if (label == kIgnored) {
          std::fill(to, to + width, scalar_t(0));
          return;
        }
        const float scale = *grads[0].const_data_ptr<float>();
        slope_row(x, log_sums.const_data_ptr<float>()[row], scale, everywhere, width, out.data());
        if (const int64_t place = vocabulary.place(label, width); place >= 0) out[place] -= scale * (1 - smoothing);
        narrow(out.data(), width, to);
      });
    });
    return {slope, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor cross_entropy_sum(const at::Tensor& logits, const at::Tensor& labels, double label_smoothing,
                             const PartitionedVocabulary* shared) {
  const Vocabulary vocabulary = shared == nullptr ? Vocabulary{0, logits.size(1), nullptr}
                                                  : Vocabulary{shared->mine.begin, shared->whole, shared->group};
  check_labels(labels.is_meta() ? labels : labels.to(at::kCPU).contiguous(), vocabulary.whole);
  const DeviceKernels* const kernels = device_kernels(logits);
  if (kernels != nullptr && element_type(logits.scalar_type()))
    return device::cross_entropy_sum(*kernels, logits, labels, label_smoothing, vocabulary);
  if (runs_reference(logits)) return reference::cross_entropy_sum(logits, labels, label_smoothing, vocabulary);
  return CrossEntropy::apply(logits, labels, label_smoothing, vocabulary);
}

}  // namespace trainer::nn
