// The key of the machines of a run, and when a run may do without.
#pragma once

#include <string>

namespace trainer::launch {

/// An address of host:port that others than this machine can reach, or may reach once the name can be resolved; "" when
/// all are loopback addresses.
std::string open_address(const std::string& host, int port);

/// The key of a run whose machines meet at host:port, from TRAINER_SECRET or TRAINER_SECRET_FILE (take_secret()); ""
/// without a secret. Errors: ConfigError when others can reach that address, there is no secret, and nothing says
/// that none is wanted; those of take_secret().
std::string key_for(const std::string& host, int port);

}  // namespace trainer::launch
