// Conversion between a free-form part of a document (`model.config`) and JSON text.
#pragma once

#include <string>

#include "engine/config/document/document.h"

namespace trainer::config {

/// JSON text in the order of the document. Bare scalars that look like numbers or booleans (true false yes no on off,
/// 1e-6) become such, quoted ones stay text.
std::string to_json(const Node& node);

/// The same in the format of Accelerate's files: sorted keys, two spaces, ASCII only, a newline at the end.
std::string sorted_json(const Node& node);

/// Errors: ConfigError if `text` is not JSON.
Node from_json(const std::string& text);

}  // namespace trainer::config
