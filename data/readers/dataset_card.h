// What the repository of a dataset on the Hugging Face Hub says of itself.
#pragma once

#include <filesystem>

#include "engine/config/document/document.h"

namespace trainer::data {

/// The YAML between the two lines `---` at the beginning of a README.md; null without one that can be read.
config::Node front_matter(const std::filesystem::path& readme);

/// The item of `configs` in the front matter that is read: the only one, or the default. Errors: InputError that names
/// them.
const config::Node& chosen_configuration(const config::Node& configs, const std::filesystem::path& folder);

/// The folder itself, or, for a folder datasets--NAME of the Hub's cache, its snapshot that refs/main names, or the only
/// one. Errors: InputError.
std::filesystem::path repository_of(const std::filesystem::path& folder);

}  // namespace trainer::data
