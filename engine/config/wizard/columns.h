// Which columns of a file are the input and what is to be predicted.
#pragma once

#include <string>
#include <vector>

#include "engine/config/sections.h"

namespace trainer::config {

struct ColumnRoles {
  std::string source;  // a column, or a template of several
  std::string target;  // "": nothing
};

/// The usual names first, else the order of the columns. Without columns: those that the task reads unless told.
ColumnRoles guess_roles(const std::vector<std::string>& columns, Task task);

/// The columns that a template mentions: those in braces, or all of it.
std::vector<std::string> columns_in(const std::string& text);

}  // namespace trainer::config
