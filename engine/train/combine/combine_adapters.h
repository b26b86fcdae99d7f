// Combines several LoRA adapters into one.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/config/adapters/combination.h"

namespace trainer::train {

struct WeightedAdapter {
  std::filesystem::path folder;  // of PEFT or of a run, or a checkpoint
  double weight = 1;
};

struct CombineRequest {
  std::vector<WeightedAdapter> adapters;
  std::filesystem::path output;  // must be missing or empty
  std::string base;              // the base model's name in the result; "": as the adapters name it
  const config::Combination* how = nullptr;
  int64_t rank = 0;    // of a decomposition; 0: the highest of the adapters
  double density = 1;  // see adapters::CombineRule
  bool sign_by_frequency = false;
  uint64_t seed = 0;  // of random pruning
};

struct CombineResult {
  std::string base;  // the base model's name; "" if nothing names it
  int64_t rank = 0, layers = 0;
  std::optional<double> error;     // of the sum of the changes, relative; without pruning only
  std::vector<std::string> whole;  // tensors that one adapter replaces as a whole: its modules_to_save
  std::vector<std::string> warnings;
};

/// Writes to `request.output` the adapter folder that PEFT's add_weighted_adapter makes of the adapters. The folder
/// appears when it is complete. Differences from PEFT: a result of rsLoRA has the scale 1 as well, modules_to_save keep
/// their trained values, and layers that only some adapters change are named one by one if no list of names fits.
/// Errors, with all problems: InputError when an adapter can't be read; ConfigError when they can't be combined, or
/// `output` isn't empty; MachineError.
CombineResult combine_adapters(const CombineRequest& request);

}  // namespace trainer::train
