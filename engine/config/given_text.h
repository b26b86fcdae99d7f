// What no value of a configuration may hold, whichever option it is for.
#pragma once

#include <string>

#include "engine/config/problems.h"

namespace trainer::config {

/// Adds a problem for each value of `document` that looks like a secret: files and logs of the run would show it.
void refuse_secrets(const Node& document, Problems& problems);

/// Adds a problem for each value of `document` that stands in our sections and that readers of YAML understand
/// differently: an integer that is not written in digits (1e3 is text for some), a number or a truth in quotes (text
/// for all others), and a key with nothing behind it, which is what a file looks like that was cut, or never finished.
/// Accelerate's part is read as Accelerate reads it. Before expand_environment(): "${STEPS}" may need its quotes.
void refuse_doubtful(const Node& document, Problems& problems);

/// What is wrong with `path`, an absolute path that was written as `text`; "" when nothing is.
std::string path_fault(const std::string& text, const std::string& path);

}  // namespace trainer::config
