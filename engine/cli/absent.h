// Commands of other programs that trainer does not have.
#pragma once

#include <string>

namespace trainer::cli {

/// What to use instead of the command or flag `name` ("merge", "--merge"), as the end of "there is no command 'merge':
/// …". "" for all other names.
std::string instead_of(const std::string& name);

}  // namespace trainer::cli
