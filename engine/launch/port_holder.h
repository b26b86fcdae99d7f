// Which process holds a port of this machine.
#pragma once

#include <string>

#include "engine/launch/address.h"

namespace trainer::launch {

/// The process that occupies the address: "process 4242 (python3)"; for a process that only its own user may inspect,
/// "a process of the user alice"; "" when none is found.
std::string holder_of(const Address& address);

}  // namespace trainer::launch
