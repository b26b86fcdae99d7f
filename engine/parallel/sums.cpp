#include "engine/parallel/sums.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/stack.h>

#include "engine/dist/dry_trace.h"

namespace trainer::parallel {
namespace {

double squares_on_host(const at::Tensor& flat) {
  const auto* const x = flat.const_data_ptr<float>();
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < flat.numel(); ++i) sum += static_cast<double>(x[i]) * x[i];
  return sum;
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
