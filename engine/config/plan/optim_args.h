#pragma once

#include <map>
#include <string>

#include "engine/config/sections/training.h"

namespace trainer::config {

/// The values of `training.optim_args`, by torch's names; true is 1, false 0, a choice its index.
struct OptimArgs {
  std::map<std::string, double> values;

  double get(const std::string& key, double otherwise) const {
    const auto found = values.find(key);
    return found == values.end() ? otherwise : found->second;
  }
};

/// True for the optimizers that read `optim_args`.
bool takes_optim_args(OptimizerName optim);

/// Reads the `optim_args` of an optimizer that takes them; for other optimizers the result is empty.
/// Errors: ConfigError for text that is not "key=value, …", for a key that the optimizer does not have, and for a value
/// out of range.
OptimArgs read_optim_args(const TrainingConfig& training);

}  // namespace trainer::config
