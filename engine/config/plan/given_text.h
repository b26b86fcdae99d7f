// Checks that apply to the values of all options.
#pragma once

#include <string>

#include "engine/config/document/problems.h"

namespace trainer::config {

/// Adds a problem for each value of `document` that looks like a secret, which files and logs of the run would show.
void refuse_secrets(const Node& document, Problems& problems);

/// Adds a problem for each value in our sections of `document` that YAML readers interpret differently: an integer that
/// is not written in digits (1e3 is text for some), a number or a boolean in quotes (text for all others), and a key
/// without a value, as in a file that was truncated or never finished. Accelerate's part is read as Accelerate reads
/// it. Call it before expand_environment(): "${STEPS}" may need its quotes.
void refuse_doubtful(const Node& document, Problems& problems);

/// What is wrong with `path`, an absolute path that was written as `text`; "" if nothing is.
std::string path_fault(const std::string& text, const std::string& path);

}  // namespace trainer::config
