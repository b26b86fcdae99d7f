// Names of classes that are settled before the data is read.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/labels.h"
#include "engine/config/sections.h"

namespace trainer::prepare {

/// Their order is that of the model's outputs, so a run that is resumed keeps the order that it began with.
struct SettledClasses {
  std::vector<std::string> names;  // of the checkpoint, else of the model; empty: those in the data, by `order`
  data::LabelOrder order = data::LabelOrder::kIntegersAsNumbers;
  std::filesystem::path checkpoint;  // whose names these are; "": the model's, or there are none
};

/// Errors: ConfigError when data.labels names other classes than the checkpoint that the run is resumed from, or the
/// same in another order. What is wrong with a checkpoint or a model's file is said by whoever loads it.
SettledClasses settled_classes(const config::Config& config);

}  // namespace trainer::prepare
