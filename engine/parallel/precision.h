#pragma once

#include <optional>
#include <string>

#include "models/nn/parameter.h"
#include "models/nn/saved_activations.h"

namespace trainer::parallel {

/// What else helps against slices that cut blocks, after an advice to skip the layer.
inline constexpr const char* kOtherSlices =
    ", or choose a parallelism_config.parallelism_config_tp_size that divides the axis into whole blocks";

/// The dtypes of a run: trained parameters are stored in fp32, linear layers compute in `compute`. (In fp16, those
/// whose outputs would overflow compute in fp32.)
struct Precision {
  at::ScalarType compute = at::kFloat;
  std::optional<at::ScalarType> frozen_as = std::nullopt;  // of frozen weights; none: the file's
  const nn::PackedFormat* packed = nullptr;      // of frozen weights that can be packed (nn::Parameter::packable)
  at::ScalarType reduce = at::kFloat;            // dtype of gradients in reductions
  nn::SavedAs saved = nn::SavedAs::kAsComputed;  // activations, until backward

  /// How a weight is stored that its source stores as `source`: a frozen one never in a wider dtype than it computes
  /// in. Errors: ConfigError if packing_problem() finds one.
  nn::Storage storage(const nn::Parameter& parameter, const nn::Storage& source) const;
  /// Why the weight can't be stored in blocks as `packed` demands; "": it can, or need not be.
  std::string packing_problem(const nn::Parameter& parameter) const;
  /// The compute dtype of a trainable weight.
  at::ScalarType compute_dtype(const nn::Parameter& parameter) const {
    return parameter.linear ? parameter.computed_in(compute) : at::kFloat;
  }
};

}  // namespace trainer::parallel
