#pragma once

#include <optional>

#include "models/nn/parameter.h"

namespace trainer::parallel {

/// The dtypes of a run: trained parameters are stored in fp32, linear layers compute in `compute`. (In fp16, those
/// whose outputs would overflow compute in fp32.)
struct Precision {
  at::ScalarType compute = at::kFloat;
  std::optional<at::ScalarType> frozen_as = std::nullopt;  // storage dtype of frozen weights; none: the file's dtype
  at::ScalarType reduce = at::kFloat;                      // dtype of gradients in reductions

  /// The storage dtype of a frozen weight: never wider than its compute dtype.
  at::ScalarType frozen(const nn::Parameter& parameter, at::ScalarType stored) const {
    return compute_dtype(parameter) != at::kFloat ? compute_dtype(parameter) : frozen_as.value_or(stored);
  }
  /// The compute dtype of a trainable weight.
  at::ScalarType compute_dtype(const nn::Parameter& parameter) const {
    return parameter.linear ? parameter.computed_in(compute) : at::kFloat;
  }
};

}  // namespace trainer::parallel
