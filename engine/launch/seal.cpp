#include "engine/launch/seal.h"

#include <openssl/evp.h>

#include <memory>

#include "engine/base/errors.h"
#include "engine/launch/secret.h"

namespace trainer::launch {

LinkMessage Seal::put_on(LinkMessage message) {
  std::string hash = hash_of(message);
  ++count_;
  message.strings.push_back(std::move(hash));
  return message;
}

LinkMessage Seal::take_off(LinkMessage message) {
  if (message.strings.empty()) throw PeerError("a message without a MAC");
  const std::string found = std::move(message.strings.back());
  message.strings.pop_back();
  if (!equal_secretly(found, hash_of(message))) throw PeerError("a message with an invalid MAC");
  ++count_;
  return message;
}

std::string Seal::hash_of(const LinkMessage& message) const {
  std::string text(reinterpret_cast<const char*>(&count_), sizeof(count_));
  text += encode_frame(message, kMaxMachineFrame);
  return keyed_hash(key_, text);
}

std::string Seal::hide(std::string_view bytes) {
  require(bytes.size() <= kMostHidden, "{} bytes are to be encrypted at a time", bytes.size());
  const std::string key = keyed_hash(key_, "contents of files");
  unsigned char counter[16]{};  // the number of this text, then that of a block in it
  for (std::size_t i = 0; i < sizeof(hidden_); ++i) counter[i] = static_cast<unsigned char>(hidden_ >> (8 * i));
  ++hidden_;
  const std::unique_ptr<EVP_CIPHER_CTX, void (*)(EVP_CIPHER_CTX*)> cipher(EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_free);
  std::string out(bytes.size(), '\0');
  int size = 0;
  const bool done =
      EVP_EncryptInit_ex(cipher.get(), EVP_aes_256_ctr(), nullptr, reinterpret_cast<const unsigned char*>(key.data()),
                         counter) == 1 &&
      EVP_EncryptUpdate(cipher.get(), reinterpret_cast<unsigned char*>(out.data()), &size,
                        reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size())) == 1;
  require(done && static_cast<std::size_t>(size) == bytes.size(), "AES-256-CTR failed");
  return out;
}

Seals make_seals(const std::string& key, const std::string& follower_nonce, const std::string& leader_nonce,
                 int64_t leader_epoch) {
  // The nonces have the same length, so no two pairs of them concatenate to the same text.
  const std::string both = kProtocol + follower_nonce + leader_nonce + std::to_string(leader_epoch);
  return {Seal(keyed_hash(key, "follower to leader: " + both)), Seal(keyed_hash(key, "leader to follower: " + both))};
}

}  // namespace trainer::launch
