// Who has a port of this machine.
#pragma once

#include <string>

#include "engine/launch/address.h"

namespace trainer::launch {

/// Who keeps others from listening there: "process 4242 (python3)"; of another user's process, which may not be looked
/// into, "a process of the user alice"; "" when none is found.
std::string holder_of(const Address& address);

}  // namespace trainer::launch
