#include "engine/parallel/sums.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

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

at::Tensor squares_on_device(const std::vector<at::Tensor>& list, at::Device device) {
  if (list.empty()) return at::zeros({}, at::TensorOptions(at::kDouble).device(device));
  return at::stack(at::_foreach_norm(list, 2, at::kDouble)).square().sum();
}

}  // namespace

void ScalarSum::add(const at::Tensor& scalar) {
  is_dry_ = is_dry_ || scalar.is_meta();
  if (scalar.is_meta()) return;
  if (scalar.is_cpu())
    on_host_ += scalar.item<double>();
  else
    on_device_ = on_device_.defined() ? on_device_ + scalar.detach() : scalar.detach().to(at::kDouble);
}

double ScalarSum::value() const {
  if (is_dry_) dist::record(dist::DryHostRead{});
  return on_device_.defined() ? on_host_ + on_device_.item<double>() : on_host_;
}

std::vector<double> sums_of_squares(const std::vector<std::vector<at::Tensor>>& lists) {
  std::vector<double> sums(lists.size());
  const at::Tensor* on_device = nullptr;
  for (size_t i = 0; i < lists.size(); ++i)
    for (const at::Tensor& flat : lists[i])
      if (flat.is_cpu())
        sums[i] += squares_on_host(flat);
      else
        on_device = &flat;
  if (on_device == nullptr) return sums;
  std::vector<at::Tensor> there;
  for (const auto& list : lists) there.push_back(squares_on_device(list, on_device->device()));
  const at::Tensor on_device_sums = at::stack(there);
  if (on_device_sums.is_meta()) {
    dist::record(dist::DryHostRead{});
    constexpr double kLarge = 1e12;  // a dry run clips
    return std::vector<double>(lists.size(), kLarge);
  }
  const at::Tensor read = on_device_sums.cpu();
  for (size_t i = 0; i < sums.size(); ++i) sums[i] = read.const_data_ptr<double>()[i];
  return sums;
}

}  // namespace trainer::parallel
