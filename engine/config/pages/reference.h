// The reference page of all options, generated from the tables.
#pragma once

#include <string>

namespace trainer::config {

/// Markdown; configs/README.md holds it.
std::string reference_page();

}  // namespace trainer::config
