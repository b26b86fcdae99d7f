#include "engine/checkpoint/openssh_key.h"

#include <openssl/evp.h>

#include <cstdint>

#include "engine/base/errors.h"

namespace trainer::checkpoint {
namespace {

constexpr std::string_view kBegin = "-----BEGIN OPENSSH PRIVATE KEY-----", kEnd = "-----END OPENSSH PRIVATE KEY-----";
constexpr std::string_view kMagic{"openssh-key-v1\0", 15};
constexpr std::string_view kKind = "ssh-ed25519";
constexpr size_t kKeyBytes = 32;

ConfigError damaged() {
  return ConfigError("the key is damaged");
}

/// The bytes of base64 text, whose line ends don't matter.
std::string decoded(std::string_view text) {
  std::string clean;
  for (const char c : text)
    if (c != '\n' && c != '\r') clean += c;
  if (clean.size() % 4 != 0 || clean.size() > (size_t{1} << 16)) throw damaged();
  std::string bytes(clean.size() / 4 * 3, '\0');
  const int count =
      EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                      reinterpret_cast<const unsigned char*>(clean.data()), static_cast<int>(clean.size()));
  if (count < 0) throw damaged();
  for (size_t i = clean.size(); i > 0 && clean[i - 1] == '='; --i) bytes.pop_back();
  return bytes;
}

/// Reads numbers and strings from the front of binary data.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : left_(bytes) {}

  std::string_view take(size_t count) {
    if (count > left_.size()) throw damaged();
    const std::string_view taken = left_.substr(0, count);
    left_.remove_prefix(count);
    return taken;
  }
  uint32_t number() {
    uint32_t value = 0;
    for (const char byte : take(4)) value = value << 8 | static_cast<unsigned char>(byte);
    return value;
  }
  std::string_view string() { return take(number()); }

 private:
  std::string_view left_;
};

void require_kind(std::string_view kind) {
  if (kind != kKind)
    throw ConfigError("it is a key of the kind {}, but signatures need {}: `ssh-keygen -t ed25519` makes one",
                      kind.substr(0, 64), kKind);
}

std::string key_of(std::string_view bytes) {
  if (bytes.size() < kKeyBytes) throw damaged();
  return std::string(bytes.substr(0, kKeyBytes));
}

}  // namespace

bool is_openssh_private_key(std::string_view text) {
  return text.find(kBegin) != std::string_view::npos;
}

bool is_openssh_public_key(std::string_view text) {
  return text.starts_with("ssh-") || text.starts_with("ecdsa-") || text.starts_with("sk-");
}

std::string openssh_private_key(std::string_view text) {
  const size_t begin = text.find(kBegin) + kBegin.size(), end = text.find(kEnd);
  if (end == std::string_view::npos || end < begin) throw damaged();
  const std::string bytes = decoded(text.substr(begin, end - begin));
  Fields file(bytes);
  if (file.take(kMagic.size()) != kMagic) throw damaged();
  const std::string_view cipher = file.string();
  if (cipher != "none")
    throw ConfigError("the key is protected by a passphrase, which a run can't ask for: use a key without one");
  file.string();  // how the passphrase is stretched …
  file.string();  // … and with which options
  if (file.number() != 1) throw damaged();
  require_kind(Fields(file.string()).string());
  Fields secret(file.string());
  if (secret.number() != secret.number()) throw damaged();
  require_kind(secret.string());
  secret.string();  // the public key
  return key_of(secret.string());
}

std::string openssh_public_key(std::string_view text) {
  const size_t space = text.find(' ');
  require_kind(text.substr(0, space));
  if (space == std::string_view::npos) throw damaged();
  const std::string_view rest = text.substr(space + 1);
  const std::string bytes = decoded(rest.substr(0, rest.find_first_of(" \r\n")));
  Fields fields(bytes);
  require_kind(fields.string());
  return key_of(fields.string());
}

}  // namespace trainer::checkpoint
