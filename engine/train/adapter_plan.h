#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engine/config/plan/plan.h"

namespace trainer::train {

/// The plan of one process for an adapter on its base model, neither of which a configuration file names.
struct AdapterPlan {
  config::Plan plan;
  std::vector<std::string> labels;  // for make_blueprint
};

/// `adapter`: a PEFT folder, the output folder of a run, or a checkpoint. `base`: a model folder or a Hub name; "": the
/// one that adapter_config.json names. The task is the one it names, else the default one of the model's family.
/// Errors: InputError when a folder is missing or isn't what it must be; ConfigError when no base is named.
AdapterPlan plan_of_adapter(const std::filesystem::path& adapter, const std::string& base);

}  // namespace trainer::train
