// Class names that are fixed before the data is read.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/samples/labels.h"
#include "engine/config/sections.h"

namespace trainer::prepare {

/// In the order of the model's outputs, so a resumed run keeps the order it began with.
struct SettledClasses {
  std::vector<std::string> names;  // of the checkpoint, else of the model; empty: take the data's, sorted by `order`
  data::LabelOrder order = data::LabelOrder::kIntegersAsNumbers;
  std::filesystem::path checkpoint;  // the source of the names; "" when they are the model's or empty
};

/// Errors: ConfigError when data.labels differs from the classes of the checkpoint that the run resumes from, or from
/// their order. Damaged checkpoints and model files are reported when they are loaded.
SettledClasses settled_classes(const config::Config& config);

}  // namespace trainer::prepare
