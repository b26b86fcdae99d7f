// A Config as a document.
#pragma once

#include "engine/config/schema.h"

namespace trainer::config {

/// Every option with its value. `comment(path)`, where given, is written behind each.
Node to_node(const Config& config, const std::function<std::string(const std::string& path)>& comment = {});

}  // namespace trainer::config
