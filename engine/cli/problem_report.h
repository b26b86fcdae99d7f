// How the problems of a configuration are shown.
#pragma once

#include <string>
#include <vector>

#include "engine/config/document/problems.h"

namespace trainer::cli {

/// The problems that `error` reports, at least one.
std::vector<config::Problem> problems_of(const ConfigError& error);

/// Each problem with its line of the file and a caret below the place, and their number at the end. `color`: in red
/// and gray.
std::string problem_report(const std::vector<config::Problem>& problems, bool color);

/// One JSON object: {"problems": [{"file", "line", "column", "option", "message", "rule"}, …]}. A problem outside of
/// files has "origin" ("--num_processes", "environment FSDP_VERSION") instead of the place.
std::string problem_json(const std::vector<config::Problem>& problems);

}  // namespace trainer::cli
