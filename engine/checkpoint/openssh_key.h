// OpenSSH's key files, which libcrypto doesn't read: `ssh-keygen -t ed25519`.
// Source: PROTOCOL.key of OpenSSH ("openssh-key-v1"), RFC 8709 (ssh-ed25519), RFC 4251 (strings).
#pragma once

#include <string>
#include <string_view>

namespace trainer::checkpoint {

/// Whether `text` is of a private, or a public key in OpenSSH's format, of whatever kind.
bool is_openssh_private_key(std::string_view text);
bool is_openssh_public_key(std::string_view text);

/// The 32 bytes of an Ed25519 key. Errors: ConfigError when the file is damaged, protected by a passphrase, or of
/// another kind.
std::string openssh_private_key(std::string_view text);
std::string openssh_public_key(std::string_view text);

}  // namespace trainer::checkpoint
