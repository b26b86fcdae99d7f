// Reads the configuration in an adapter folder.
#pragma once

#include <map>
#include <string>

#include "engine/config/document/document.h"
#include "engine/config/sections/adapters.h"

namespace trainer::config {

/// The file that describes the adapter in `folder`: adapter_config.json, as PEFT writes it.
std::string adapter_config_file(const std::string& folder);

/// The adapter in `given.path` (kind, rank, targets, …): PEFT's defaults overridden by the folder's
/// adapter_config.json. The path and the options that only a run decides are taken from `given`.
/// Errors: InputError for a missing folder, a kind or variant that this version does not train, or an adapter that
/// can't be trained further.
LoraConfig read_adapter_config(const LoraConfig& given);

/// What adapter_config.json says about the model that the adapter was trained on; "" where it says nothing.
struct AdapterBase {
  std::string model;  // a folder or a Hub name
  std::string task;   // PEFT's task_type: "CAUSAL_LM"
};
/// Errors: InputError for a missing folder or a file that isn't a JSON object.
AdapterBase read_adapter_base(const std::string& folder);

/// The positions of the keys in that file; empty if it can't be read.
std::map<std::string, Mark> adapter_config_marks(const std::string& folder);

}  // namespace trainer::config
