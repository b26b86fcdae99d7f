#pragma once

#include <string>

namespace trainer::cli {

/// What is wrong when another launcher started several processes of `trainer command` on this machine, as the command
/// starts the ranks itself; "" when nothing is.
std::string started_several_times(const std::string& command);

}  // namespace trainer::cli
