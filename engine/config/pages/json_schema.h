// JSON Schema of the configuration file, for editors.
#pragma once

#include <string>

namespace trainer::config {

/// A JSON Schema (draft 07) of the configuration file, generated from the tables, for completion, documentation and
/// validation in YAML language servers. It accepts everything that the reader accepts in either YAML dialect (`no` as a
/// boolean or a string, 1e8 as a number or a string); rules between options are left to `trainer check`.
std::string json_schema();

}  // namespace trainer::config
