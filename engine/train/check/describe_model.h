#pragma once

#include <string>

namespace trainer::train {

/// The model of a folder, or of the text of a config.json, as a JSON object: its class, its family and the tasks of
/// that family, its number of parameters, its blocks {class: count}, the default LoRA targets and the layers that can
/// have adapters; {"error": message} for a folder without weights or a model this build can't train. `task`: the task
/// to build it for; "" or one that the family doesn't have: its default. No weights are read.
std::string describe_model(const std::string& origin, const std::string& task);

}  // namespace trainer::train
