#pragma once

#include <map>
#include <string>

#include "engine/config/sections.h"

namespace trainer::config {

/// What `training.optim_args` says, by torch's names; true is 1, false 0.
struct OptimArgs {
  std::map<std::string, double> values;

  double get(const std::string& key, double otherwise) const {
    const auto found = values.find(key);
    return found == values.end() ? otherwise : found->second;
  }
};

/// True for the optimisers that read `optim_args`.
bool takes_optim_args(OptimizerName optim);

/// Reads the `optim_args` of an optimiser that takes them; those of others are empty.
/// Errors: ConfigError for what is no "key=value, …", for a key that the optimiser does not have, and for a value out
/// of its range.
OptimArgs read_optim_args(const TrainingConfig& training);

}  // namespace trainer::config
