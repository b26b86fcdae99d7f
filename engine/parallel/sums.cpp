#include "engine/parallel/sums.h"

#include <algorithm>
#include <numeric>

#include <ATen/TensorOperators.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/stack.h>

#include "engine/dist/dry_trace.h"
#include "models/nn/kernel.h"
#include "models/nn/parallel.h"

namespace trainer::parallel {
namespace {

constexpr int64_t kChunk = 1 << 16;
constexpr int kLanes = 32;

/// Its order of additions, and thus its bits, depend neither on the instruction set nor on the number of threads.
TRAINER_KERNEL double squares_of_chunk(const float* x, int64_t n) {
  double lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
#pragma omp simd
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += static_cast<double>(x[i + lane]) * x[i + lane];
  for (; i < n; ++i) lanes[0] += static_cast<double>(x[i]) * x[i];
  return std::accumulate(lanes, lanes + kLanes, 0.0);
}

double squares_on_host(const at::Tensor& flat) {
  const auto* const x = flat.const_data_ptr<float>();
  const int64_t n = flat.numel();
  std::vector<double> sums((n + kChunk - 1) / kChunk);
  nn::parallel_for(0, static_cast<int64_t>(sums.size()), 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) sums[i] = squares_of_chunk(x + i * kChunk, std::min(kChunk, n - i * kChunk));
  });
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

}  // namespace

void ScalarSum::add(const at::Tensor& scalar) {
  if (scalar.is_cpu())
    on_host_ += scalar.item<double>();
  else
    add_on_device(scalar.detach());
}

void ScalarSum::add_squares(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> there;
  for (const at::Tensor& flat : tensors)
    if (flat.is_cpu())
      on_host_ += squares_on_host(flat);
    else
      there.push_back(flat);
  if (there.empty()) return;
  if (there.front().is_meta()) on_host_ += 1e12;
  add_on_device(at::stack(at::_foreach_norm(there, 2, at::kDouble)).square().sum());
}

void ScalarSum::add_on_device(const at::Tensor& scalar) {
  on_device_ = on_device_.defined() ? on_device_ + scalar : scalar.to(at::kDouble);
}

std::vector<double> values_of(const std::vector<ScalarSum>& sums) {
  std::vector<double> values;
  std::vector<at::Tensor> there;
  for (const ScalarSum& sum : sums) {
    values.push_back(sum.on_host_);
    if (sum.on_device_.defined()) there.push_back(sum.on_device_);
  }
  if (there.empty()) return values;
  const at::Tensor together = at::stack(there);
  if (together.is_meta()) {
    dist::record(dist::DryHostRead{});
    return values;
  }
  const at::Tensor read = together.cpu();
  const double* next = read.const_data_ptr<double>();
  for (size_t i = 0; i < sums.size(); ++i)
    if (sums[i].on_device_.defined()) values[i] += *next++;
  return values;
}

}  // namespace trainer::parallel
