// Names of the Hugging Face Hub, as far as the Hub's own cache on this machine holds them. Nothing is fetched.
#pragma once

#include <filesystem>
#include <string>

namespace trainer::config {

/// True for "name" or "organisation/name", as the Hub allows them; a folder may be called so too.
bool is_hub_name(const std::string& text);

/// The folder of the newest snapshot of `name` ("t5-base", "meta-llama/Llama-2-7b-hf") in the cache; "" when it isn't
/// there, or when `name` is no such name.
std::string hub_folder(const std::string& name);

/// Where the cache is: $HF_HUB_CACHE, $HF_HOME/hub, or ~/.cache/huggingface/hub.
std::filesystem::path hub_cache();

/// What to do when the folder `path`, whose last parts may have been meant as a name, is not there.
std::string hub_hint(const std::string& path);

}  // namespace trainer::config
