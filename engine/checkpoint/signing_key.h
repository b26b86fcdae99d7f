// Ed25519 keys (RFC 8032, by OpenSSL) in the files that users have: PEM, as `openssl genpkey -algorithm ed25519` and
// `openssl pkey -pubout` write them, or OpenSSH's.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

struct evp_pkey_st;

namespace trainer::checkpoint {

inline constexpr size_t kSignatureBytes = 64;
inline constexpr const char* kSignOption = "checkpoint.sign";
inline constexpr const char* kTrustedKeyOption = "checkpoint.trusted_key";

/// Verifies signatures.
class PublicKey {
 public:
  /// Reads a public key's file, which the option `option` names. Errors: ConfigError when it can't be read or is
  /// something else.
  PublicKey(const std::filesystem::path& file, std::string_view option);
  explicit PublicKey(std::shared_ptr<evp_pkey_st> key) : key_(std::move(key)) {}

  bool verifies(std::string_view text, std::string_view signature) const;
  /// The first half of the key's SHA-256 in hexadecimal digits, by which messages name it.
  std::string id() const;

 private:
  std::shared_ptr<evp_pkey_st> key_;
};

/// Makes signatures.
class SigningKey {
 public:
  /// Reads a private key's file, which the option `option` names. Errors: ConfigError when other users can read it, it
  /// is protected by a passphrase, can't be read, or is something else.
  SigningKey(const std::filesystem::path& file, std::string_view option);

  /// kSignatureBytes.
  std::string sign(std::string_view text) const;
  PublicKey public_key() const { return PublicKey(key_); }

 private:
  std::shared_ptr<evp_pkey_st> key_;
};

/// Checks that the keys of checkpoint.sign and checkpoint.trusted_key ("": none) can be used, and that a run trusts
/// what it signs: it may have to resume from that. Errors: ConfigError.
void check_keys(const std::string& sign, const std::string& trusted_key);

}  // namespace trainer::checkpoint
