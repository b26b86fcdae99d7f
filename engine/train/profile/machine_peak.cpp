#include "engine/train/profile/machine_peak.h"

#include <algorithm>
#include <chrono>
#include <functional>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <torch/csrc/autograd/grad_mode.h>

namespace trainer::train {
namespace {

using Clock = std::chrono::steady_clock;

/// The least seconds that `work` takes, of as many calls as fit into a quarter of a second.
double least_seconds(const std::function<at::Tensor()>& work) {
  const auto end = Clock::now() + std::chrono::milliseconds(250);
  double least = 1e9;
  do {
    const auto start = Clock::now();
    work().view(-1)[0].item<double>();  // waits for a device
    least = std::min(least, std::chrono::duration<double>(Clock::now() - start).count());
  } while (Clock::now() < end);
  return least;
}

}  // namespace

double measure_products(at::ScalarType dtype, at::Device device) {
  const at::NoGradGuard no_grad;
  const at::TensorOptions options = at::TensorOptions(device).dtype(dtype);
  const int64_t size = device.is_cpu() ? 1024 : 8192;
  const at::Tensor a = at::ones({size, size}, options), b = at::ones({size, size}, options);
  const auto terms = static_cast<double>(size);
  return 2 * terms * terms * terms / least_seconds([&] { return at::mm(a, b); });
}

MachinePeak measure_peak(at::ScalarType dtype, at::Device device) {
  const at::NoGradGuard no_grad;
  const at::TensorOptions options(device);
  const int64_t elements = int64_t{1} << (device.is_cpu() ? 24 : 28);
  const at::Tensor from = at::ones({elements}, options.dtype(at::kFloat)), to = at::empty_like(from);
  const double copy = least_seconds([&] { return to.copy_(from); });
  return {measure_products(dtype, device), 2.0 * static_cast<double>(from.nbytes()) / copy};
}

}  // namespace trainer::train
