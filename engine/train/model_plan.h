// Plans for models and adapters that no configuration file describes.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/config/plan/plan.h"

namespace trainer::train {

/// The task that data.task calls `name`; none if there is no such task.
std::optional<config::Task> task_named(const std::string& name);

/// The plan of one process that runs the model of `name`, a folder or a Hub name, with the default task of its family.
/// Errors: InputError when it isn't on this machine.
config::Plan plan_of_model(const std::string& name);

/// The plan of one process for an adapter on its base model.
struct AdapterPlan {
  config::Plan plan;
  std::vector<std::string> labels;  // for make_blueprint
};

/// `adapter`: a PEFT folder, the output folder of a run, or a checkpoint. `base`: a model folder or a Hub name; "": the
/// one that adapter_config.json names. The task is the one it names, else the default one of the model's family.
/// Errors: InputError when a folder is missing or isn't what it must be; ConfigError when no base is named.
AdapterPlan plan_of_adapter(const std::filesystem::path& adapter, const std::string& base);

}  // namespace trainer::train
