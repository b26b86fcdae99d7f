// Guesses which columns of a file are the input and the target.
#pragma once

#include <string>
#include <vector>

#include "engine/config/sections/data.h"

namespace trainer::config {

struct ColumnRoles {
  std::string source;  // a column, or a template of several
  std::string target;  // "": nothing
};

/// By the usual names, else by the order of the columns. Without columns: the task's defaults.
ColumnRoles guess_roles(const std::vector<std::string>& columns, Task task);

/// The columns in a template: those in braces, or the whole text.
std::vector<std::string> columns_in(const std::string& text);

}  // namespace trainer::config
