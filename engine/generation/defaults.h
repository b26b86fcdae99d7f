#pragma once

#include <filesystem>

#include "engine/config/generate_request.h"
#include "engine/evaluation/generate.h"

namespace trainer::generation {

/// How to generate with the model of `folder`: by its generation_config.json, as transformers reads it, and `asked`,
/// which takes precedence. Without do_sample there, or a temperature in `asked`, the most likely token is chosen.
/// Errors: InputError for values that are out of range in the file.
evaluation::Generation generation_for(const std::filesystem::path& folder, const config::GenerateRequest& asked);

}  // namespace trainer::generation
