// What an adapter folder says about its adapter.
#pragma once

#include <map>
#include <string>

#include "engine/config/document/document.h"
#include "engine/config/sections.h"

namespace trainer::config {

/// Where `folder` describes its adapter: adapter_config.json, as PEFT writes it.
std::string adapter_config_file(const std::string& folder);

/// The adapter in `given.path` (kind, rank, targets, …): PEFT's defaults with what the folder's adapter_config.json
/// says. From `given` come the path and what only a run decides.
/// Errors: InputError for a folder that isn't there, a kind or a variant this version does not train, or an adapter
/// that can't be trained on.
LoraConfig read_adapter_config(const LoraConfig& given);

/// Where that file has its keys; empty when it can't be read.
std::map<std::string, Mark> adapter_config_marks(const std::string& folder);

}  // namespace trainer::config
