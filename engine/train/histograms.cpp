#include "engine/train/histograms.h"

#include <algorithm>
#include <limits>

#include <ATen/ops/aminmax.h>
#include <ATen/ops/bincount.h>
#include <ATen/ops/bucketize.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/masked_select.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <torch/csrc/autograd/grad_mode.h>

#include "engine/metrics/histogram_limits.h"

namespace trainer::train {
namespace {

constexpr int64_t kChunk = int64_t{1} << 20;  // elements at a time: they take 24 bytes each
enum Column : int64_t { kCount, kSum, kSumSquares, kFirstBucket };

/// Row i is parameter i's: what adds up over elements [count, sum, sum of squares, buckets…], and [-min, max].
struct HistogramTable {
  at::Tensor sums, extremes;  // fp64
};

HistogramTable table_of(int64_t parameters, int64_t buckets, at::Device device) {
  const auto fp64 = at::TensorOptions(at::kDouble).device(device);
  return {at::zeros({parameters, kFirstBucket + buckets}, fp64),
          at::full({parameters, 2}, -std::numeric_limits<double>::infinity(), fp64)};
}

/// Adds the elements of `values`, divided by `scale`, to a row.
void add_values(const at::Tensor& values, double scale, const at::Tensor& limits, const at::Tensor& sums,
                const at::Tensor& extremes) {
  const int64_t buckets = limits.numel() - 1;
  for (int64_t begin = 0; begin < values.numel(); begin += kChunk) {
    at::Tensor x = values.narrow(0, begin, std::min(kChunk, values.numel() - begin)).to(at::kDouble).div(scale);
    x = at::masked_select(x, at::isfinite(x));
    if (x.numel() == 0) continue;
    const at::Tensor bucket =
        at::bucketize(x, limits, /*out_int32=*/false, /*right=*/true).sub_(1).clamp_(0, buckets - 1);
    sums[kCount].add_(x.numel());
    sums[kSum].add_(x.sum());
    sums[kSumSquares].add_(x.square().sum());
    sums.narrow(0, kFirstBucket, buckets).add_(at::bincount(bucket, {}, buckets));
    const auto [least, most] = at::aminmax(x);
    extremes[0].clamp_min_(least.neg());
    extremes[1].clamp_min_(most);
  }
}

/// Whether this rank's elements count: of ranks with the same ones, only the first's do.
bool counts(const parallel::LogicalTensor& tensor, const dist::Comm& comm) {
  return tensor.replicated ? comm.rank() == 0 : tensor.copy == 0;
}

metrics::Histogram histogram_of(std::string tag, const at::Tensor& sums, const at::Tensor& extremes) {
  const double *const of = sums.const_data_ptr<double>(), *const ends = extremes.const_data_ptr<double>();
  metrics::Histogram histogram{std::move(tag), -ends[0], ends[1], of[kCount], of[kSum], of[kSumSquares], {}};
  histogram.buckets.assign(of + kFirstBucket, of + sums.numel());
  return histogram;
}

}  // namespace

std::vector<metrics::Histogram> histograms_of(parallel::ParallelModel& model, HistogramOf what) {
  const at::NoGradGuard no_grad;
  dist::Comm& comm = model.comm();
  const bool of_gradients = what == HistogramOf::kGradients;
  std::vector<const parallel::LogicalTensor*> trained;
  for (const parallel::LogicalTensor& tensor : model.logical_tensors())
    if (tensor.trainable) trained.push_back(&tensor);
  const at::Device device = comm.device();
  const at::Tensor limits = at::tensor(metrics::histogram_limits(), at::kDouble).to(device);
  HistogramTable table = table_of(std::ssize(trained), limits.numel() - 1, device);
  for (size_t i = 0; i < trained.size(); ++i) {
    const at::Tensor& values = of_gradients ? trained[i]->grad : trained[i]->value;
    if (!values.defined() || values.numel() == 0 || !counts(*trained[i], comm)) continue;
    const auto row = static_cast<int64_t>(i);
    add_values(values.reshape({-1}).to(device), of_gradients ? model.loss_scale() : 1, limits, table.sums[row],
               table.extremes[row]);
  }
  comm.all_reduce(table.sums);
  comm.all_reduce(table.extremes, dist::Reduce::kMax);
  const at::Tensor sums = table.sums.cpu(), extremes = table.extremes.cpu();
  std::vector<metrics::Histogram> all;
  for (size_t i = 0; i < trained.size(); ++i)
    all.push_back(histogram_of((of_gradients ? "gradients/" : "weights/") + trained[i]->name,
                               sums[static_cast<int64_t>(i)], extremes[static_cast<int64_t>(i)]));
  return all;
}

}  // namespace trainer::train
