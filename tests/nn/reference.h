// What the fused operations are held against: plain compositions in fp64, with masks drawn one counter at a time.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "models/nn/dropout.h"

namespace trainer::testing {

/// Samples of the given lengths; sample i stands at positions[i] of the run (i where none are given).
nn::LayoutPtr layout_of(const std::vector<int64_t>& lengths, std::vector<int64_t> positions = {});

/// Normally distributed values, the same for the same seed.
at::Tensor random_tensor(at::IntArrayRef shape, uint64_t seed, at::ScalarType dtype = at::kFloat);

/// scale where an element is kept and 0 where it is dropped, by definition: [n] fp64 of one row.
at::Tensor mask_row(const nn::DropoutRule& rule, int64_t position, int64_t token, int64_t head, int64_t n);
/// The same for all rows of a layout: [T, width].
at::Tensor mask_of(const nn::DropoutRule& rule, const nn::Layout& layout, int64_t width);

using Operation = std::function<at::Tensor(const std::vector<at::Tensor>&)>;

/// Runs `fused` on `inputs` and `plain` on the same values in fp64, and both backward from the same gradient: the
/// outputs and the gradients of all inputs may differ by `tolerance`, relative in norm. Gradients have their inputs'
/// dtypes.
void expect_same(const Operation& fused, const Operation& plain, const std::vector<at::Tensor>& inputs,
                 double tolerance, const std::string& what);

constexpr double kFloatTolerance = 2e-6;  // some tens of roundings of 6e-8
constexpr double kBf16Tolerance = 5e-3;   // one rounding to 8 bits is 2e-3 on average

inline double tolerance_of(at::ScalarType dtype) {
  return dtype == at::kBFloat16 ? kBf16Tolerance : kFloatTolerance;
}

}  // namespace trainer::testing
