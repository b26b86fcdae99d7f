// References for the fused operations: unfused compositions in fp64, with masks drawn one counter at a time.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "models/nn/dropout.h"

namespace trainer::testing {

/// Samples of the given lengths; sample i has sample index positions[i] (i if none are given).
nn::LayoutPtr layout_of(const std::vector<int64_t>& lengths, std::vector<int64_t> positions = {});

/// Normally distributed values, deterministic for a seed.
at::Tensor random_tensor(at::IntArrayRef shape, uint64_t seed, at::ScalarType dtype = at::kFloat);

/// By definition: the 16 bits drawn for element `i` of a token.
uint32_t draw_of(nn::PhiloxKey key, int64_t position, int64_t token, int64_t head, int64_t i);

/// By definition: the scale where an element is kept and 0 where it is dropped, [n] fp64 for one row.
at::Tensor mask_row(const nn::DropoutRule& rule, int64_t position, int64_t token, int64_t head, int64_t n);
/// mask_row for all rows of a layout: [T, width].
at::Tensor mask_of(const nn::DropoutRule& rule, const nn::Layout& layout, int64_t width);

using Operation = std::function<at::Tensor(const std::vector<at::Tensor>&)>;

/// Runs `fused` on `inputs` and `plain` on the same values in fp64, and both backwards from the same gradient: the
/// outputs and the gradients of all inputs may differ by `tolerance`, relative in norm. Gradients must have their
/// inputs' dtypes.
void expect_same(const Operation& fused, const Operation& plain, const std::vector<at::Tensor>& inputs,
                 double tolerance, const std::string& what);

constexpr double kFloatTolerance = 2e-6;  // a few tens of roundings of 6e-8
constexpr double kBf16Tolerance = 5e-3;   // one rounding to 8 bits is 2e-3 on average

inline double tolerance_of(at::ScalarType dtype) {
  return dtype == at::kBFloat16 ? kBf16Tolerance : kFloatTolerance;
}

}  // namespace trainer::testing
