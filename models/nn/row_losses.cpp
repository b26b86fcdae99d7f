#include "models/nn/row_losses.h"

#include <limits>

#include <ATen/Dispatch.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include "models/nn/convert.h"
#include "models/nn/device/cross_entropy.h"
#include "models/nn/fast_math.h"
#include "models/nn/kernel.h"
#include "models/nn/parallel.h"
#include "models/nn/reference/cross_entropy.h"
#include "models/nn/reference/reference.h"

namespace trainer::nn {
namespace {

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
  parallel_for(0, rows, std::max<int64_t>(1, 32768 / std::max<int64_t>(width, 1)),
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

/// The RowSums of each row of this rank's logits: [R, 4] fp64.
at::Tensor sums_on_cpu(const at::Tensor& logits, const Targets& targets) {
  const int64_t width = logits.size(1);
  const at::Tensor sums = at::zeros({logits.size(0), RowSums::kNumbers}, logits.options().dtype(at::kDouble));
  auto* const of_rows = static_cast<RowSums*>(sums.data_ptr());
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, logits.scalar_type(), "cross_entropy", [&] {
    for_each_row<scalar_t>(
        logits, targets.labels, [&](int64_t row, int64_t label, const float* x, std::vector<float>&) {
          if (label != kIgnored)
            of_rows[row] = row_sums(x, width, targets.vocabulary.place(label, width), targets.smoothing > 0);
        });
  });
  return sums;
}

RowLosses losses_on_cpu(const at::Tensor& sums, const Targets& targets) {
  const int64_t rows = sums.size(0);
  const auto* const of_rows = static_cast<const RowSums*>(sums.const_data_ptr());
  RowLosses losses{at::zeros({rows}, sums.options()), at::empty({rows}, sums.options().dtype(at::kFloat))};
  for (int64_t row = 0; row < rows_to_compute(sums, rows); ++row) {
    if (targets.labels.const_data_ptr<int64_t>()[row] == kIgnored) continue;
    const RowLoss found = row_loss(of_rows[row], targets.vocabulary.whole, targets.smoothing);
    losses.log_sum.data_ptr<float>()[row] = found.log_sum;
    losses.loss.data_ptr<double>()[row] = found.loss;
  }
  return losses;
}

RowLosses losses_on_device(const at::Tensor& sums, const Targets& targets) {
  const double smoothing = targets.smoothing;
  const at::Tensor log_sum = sums.select(1, 0) + sums.select(1, 1).log();
  at::Tensor loss = (1 - smoothing) * (log_sum - sums.select(1, 2));
  if (smoothing > 0) loss += smoothing * (log_sum - sums.select(1, 3) / static_cast<double>(targets.vocabulary.whole));
  return {loss.masked_fill(targets.labels.eq(kIgnored), 0), log_sum.to(at::kFloat)};
}

void slopes_on_cpu(const at::Tensor& logits, const Targets& targets, const at::Tensor& log_sum,
                   const at::Tensor& factor, const at::Tensor& out) {
  const int64_t width = logits.size(1);
  const auto smoothing = static_cast<float>(targets.smoothing);
  const float everywhere = smoothing / static_cast<float>(targets.vocabulary.whole);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, logits.scalar_type(), "cross_entropy", [&] {
    for_each_row<scalar_t>(logits, targets.labels,
                           [&](int64_t row, int64_t label, const float* x, std::vector<float>& slope) {
                             scalar_t* const to = out.data_ptr<scalar_t>() + row * width;
                             if (label == kIgnored) {
                               std::fill(to, to + width, scalar_t(0));
                               return;
                             }
                             const float scale = *factor.const_data_ptr<float>();
                             slope_row(x, log_sum.const_data_ptr<float>()[row], scale, everywhere, width, slope.data());
                             if (const int64_t place = targets.vocabulary.place(label, width); place >= 0)
                               slope[place] -= scale * (1 - smoothing);
                             narrow(slope.data(), width, to);
                           });
  });
}

/// Null: a reference layer, or the CPU's kernel.
const DeviceKernels* kernels_for(const at::Tensor& logits) {
  return element_type(logits.scalar_type()) ? device_kernels(logits) : nullptr;
}

}  // namespace

RowLosses row_losses(const at::Tensor& logits, const Targets& targets) {
  const DeviceKernels* const kernels = kernels_for(logits);
  const bool composed = kernels == nullptr && runs_reference(logits);
  const at::Tensor sums = kernels != nullptr ? device::row_sums(*kernels, logits, targets)
                          : composed         ? reference::row_sums(logits, targets)
                                             : sums_on_cpu(logits, targets);
  if (targets.vocabulary.group) add_up(*targets.vocabulary.group, sums);
  return kernels != nullptr || composed ? losses_on_device(sums, targets) : losses_on_cpu(sums, targets);
}

at::Tensor row_slopes(const at::Tensor& logits, const Targets& targets, const at::Tensor& log_sum,
                      const at::Tensor& factor, bool in_place) {
  const DeviceKernels* const kernels = kernels_for(logits);
  if (kernels == nullptr && runs_reference(logits))
    return reference::row_slopes(logits, targets, log_sum, factor, in_place);
  const at::Tensor out = in_place ? logits : at::empty_like(logits);
  if (kernels != nullptr)
    device::row_slopes(*kernels, logits, targets, log_sum, factor, out);
  else
    slopes_on_cpu(logits, targets, log_sum, factor, out);
  return out;
}

}  // namespace trainer::nn
