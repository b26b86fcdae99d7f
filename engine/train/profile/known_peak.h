// The measured speed of matrix products, remembered from run to run.
#pragma once

#include <optional>
#include <string>

#include <ATen/core/Tensor.h>

namespace trainer::train {

/// What the speed depends on: host, device, dtype and the threads of a process on the CPU.
std::string peak_key(at::ScalarType dtype, at::Device device);

/// FLOP/s that remember_peak() has written into the user's cache folder; nothing if there is none, or no such folder.
std::optional<double> known_peak(const std::string& key);

/// Failures are ignored: the next run measures again.
void remember_peak(const std::string& key, double flops);

}  // namespace trainer::train
