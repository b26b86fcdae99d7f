#include "engine/launch/seal.h"

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

Seals make_seals(const std::string& key, const std::string& follower_nonce, const std::string& leader_nonce) {
  // The nonces have the same length, so no two pairs of them concatenate to the same text.
  const std::string both = kProtocol + follower_nonce + leader_nonce;
  return {Seal(keyed_hash(key, "follower to leader: " + both)), Seal(keyed_hash(key, "leader to follower: " + both))};
}

}  // namespace trainer::launch
