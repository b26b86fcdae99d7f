// Commands of other programs that this one does not have.
#pragma once

#include <string>

namespace trainer::cli {

/// What to use in the place of the command or flag `name` ("merge", "--merge"): completes "there is no command 'merge':
/// …".
/// "" where nobody would look for it here.
std::string instead_of(const std::string& name);

}  // namespace trainer::cli
