// Resolves names on the Hugging Face Hub in the Hub's cache on this machine. Nothing is downloaded.
#pragma once

#include <filesystem>
#include <string>

namespace trainer::config {

/// True for "name" or "organization/name", as the Hub allows them; a folder can have such a name too.
bool is_hub_name(const std::string& text);

enum class HubKind { kModel, kDataset };

/// The folder of the newest snapshot of `name` ("t5-base", "meta-llama/Llama-2-7b-hf") in the cache; "" if it isn't in
/// the cache or `name` isn't a valid name.
std::string hub_folder(const std::string& name, HubKind kind = HubKind::kModel);

/// The folder of the cache: $HF_HUB_CACHE, $HF_HOME/hub, or ~/.cache/huggingface/hub.
std::filesystem::path hub_cache();

/// A hint for a folder `path` that does not exist and whose last parts could be a Hub name.
std::string hub_hint(const std::string& path, HubKind kind = HubKind::kModel);

}  // namespace trainer::config
