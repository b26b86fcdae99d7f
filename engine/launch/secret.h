// The secret that the machines of one run share, and cryptographic functions based on it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace trainer::launch {

/// The content of TRAINER_SECRET, or of the file that TRAINER_SECRET_FILE names; "" when neither is set. Removes both
/// from the environment: ranks, and programs they may start, don't need them.
/// Errors: ConfigError when the file can't be read, is empty, or when both are set.
std::string take_secret();

/// `count` cryptographically random bytes. Errors: MachineError.
std::string random_bytes(std::size_t count);

/// HMAC-SHA-256 (RFC 2104, by OpenSSL) of `text`: 32 bytes.
std::string keyed_hash(std::string_view key, std::string_view text);

/// Compares in constant time.
bool equal_secretly(std::string_view a, std::string_view b);

}  // namespace trainer::launch
