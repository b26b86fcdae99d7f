#pragma once

#include <string>
#include <vector>

namespace trainer::prepare {

/// `trainer cache`: lists the token caches, or removes some. Returns the exit code. Errors: InputError, MachineError.
int cache_command(const std::vector<std::string>& args);

}  // namespace trainer::prepare
