// What no value of a configuration may hold, whichever option it is for.
#pragma once

#include <string>

#include "engine/config/problems.h"

namespace trainer::config {

/// Adds a problem for each value of `document` that looks like a secret: files and logs of the run would show it.
void refuse_secrets(const Node& document, Problems& problems);

/// What is wrong with `path`, an absolute path that was written as `text`; "" when nothing is.
std::string path_fault(const std::string& text, const std::string& path);

}  // namespace trainer::config
