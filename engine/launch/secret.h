// The secret that the machines of one run share, and cryptographic functions based on it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace trainer::launch {

/// The content of TRAINER_SECRET, or of the file that TRAINER_SECRET_FILE names; "" when neither is set. Removes both
/// from the environment: ranks, and programs they may start, don't need them. TRAINER_SECRET_FILE=none: no secret.
/// Errors: ConfigError when the file can't be read, is empty or can be read by other users, or when both are set.
std::string take_secret();

/// The user wants none: TRAINER_SECRET_FILE=none. To be asked before take_secret().
bool is_without_secret();

/// Removes both from the environment, for a run that needs no secret.
void forget_secret();

/// Writes a new secret of 256 random bits to a file that only this user can read.
/// Errors: ConfigError when the file exists; MachineError when it can't be written.
void create_secret(const std::filesystem::path& file);

/// A key of 32 bytes by scrypt (RFC 7914; 32 MiB, about 0.1 s): whoever has recorded a connection and guesses a weak
/// secret needs as much for each guess. "" for "".
std::string stretched(const std::string& secret, const std::string& salt);

/// `count` cryptographically random bytes. Errors: MachineError.
std::string random_bytes(std::size_t count);

/// HMAC-SHA-256 (RFC 2104, by OpenSSL) of `text`: 32 bytes.
std::string keyed_hash(std::string_view key, std::string_view text);

/// Compares in constant time.
bool equal_secretly(std::string_view a, std::string_view b);

}  // namespace trainer::launch
