// A Config as a document.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/config/schema.h"

namespace trainer::config {

enum class Options { kAll, kWithEffect };

/// Options with their values: all of them, or those that have an effect under this configuration and can be read back.
/// `comment(path)`, if given, is written after each.
Node to_node(const Config& config, Options options = Options::kAll,
             const std::function<std::string(const std::string& path)>& comment = {});

/// All options except paths, with their values as text: they must be the same on all machines of a run.
std::vector<std::pair<std::string, std::string>> values_without_paths(const Config& config);

}  // namespace trainer::config
