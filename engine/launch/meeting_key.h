// The key of the machines of a run, and when a run may do without.
#pragma once

#include <string>

namespace trainer::launch {

/// The key of a run, from TRAINER_SECRET or TRAINER_SECRET_FILE; "" without a secret. Errors: those of take_secret().
std::string take_key();

/// The key of the connections between the ranks of an attempt, from that of the run; "" for "".
std::string peer_key(const std::string& run_key, const std::string& attempt_id);
inline constexpr std::size_t kPeerKeyBytes = 32;

/// An address of host:port that others than this machine can reach; "" when all are loopback addresses, or the name
/// can't be resolved (yet).
std::string open_address(const std::string& host, int port);

/// For a run without a secret that didn't ask to be without. Errors: ConfigError when host:port is an open address.
void refuse_open_address(const std::string& host, int port);

}  // namespace trainer::launch
