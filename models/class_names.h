// What a classifier's numbers mean: id2label and label2id of config.json.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "models/nn/config_reader.h"
#include "models/registry.h"

namespace trainer::models {

/// The names of the classes: the request's, else config.json's. One class, or several for one sample, are problems of
/// the reader: only one class of several is trained.
std::vector<std::string> read_class_names(nn::ConfigReader& reader, const BuildRequest& request);

/// Puts `names` into a config.json; nothing when there are none.
void write_class_names(nlohmann::json& config, const std::vector<std::string>& names);

}  // namespace trainer::models
