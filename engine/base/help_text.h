#pragma once

#include <string>

namespace trainer {

/// A command's help, as CLI11 makes it with each description in one line, wrapped to 80 columns: what continues a line
/// begins below its description.
std::string help_in_80_columns(const std::string& help);

}  // namespace trainer
