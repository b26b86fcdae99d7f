// The names of a classifier's classes: id2label and label2id of config.json.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "models/nn/config_reader.h"
#include "models/registry.h"

namespace trainer::models {

/// The class names: the request's, else config.json's. A single class, or several classes per sample, are reported as
/// problems through the reader: only single-label classification is supported.
std::vector<std::string> read_class_names(nn::ConfigReader& reader, const BuildRequest& request);

/// Writes `names` into a config.json; does nothing when there are none.
void write_class_names(nlohmann::json& config, const std::vector<std::string>& names);

}  // namespace trainer::models
