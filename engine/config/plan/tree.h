// A Config as a document.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/config/schema.h"

namespace trainer::config {

/// Every option with its value. `comment(path)`, if given, is written after each.
Node to_node(const Config& config, const std::function<std::string(const std::string& path)>& comment = {});

/// All options except paths, with their values as text: they must be the same on all machines of a run.
std::vector<std::pair<std::string, std::string>> values_without_paths(const Config& config);

}  // namespace trainer::config
