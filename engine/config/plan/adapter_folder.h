// Reads the configuration in an adapter folder.
#pragma once

#include <map>
#include <string>

#include "engine/config/document/document.h"
#include "engine/config/sections.h"

namespace trainer::config {

/// The file that describes the adapter in `folder`: adapter_config.json, as PEFT writes it.
std::string adapter_config_file(const std::string& folder);

/// The adapter in `given.path` (kind, rank, targets, …): PEFT's defaults overridden by the folder's
/// adapter_config.json. The path and the options that only a run decides are taken from `given`.
/// Errors: InputError for a missing folder, a kind or variant that this version does not train, or an adapter that
/// can't be trained further.
LoraConfig read_adapter_config(const LoraConfig& given);

/// The positions of the keys in that file; empty if it can't be read.
std::map<std::string, Mark> adapter_config_marks(const std::string& folder);

}  // namespace trainer::config
