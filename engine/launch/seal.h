// Authenticates messages: without the key, none can be forged, changed, replayed, dropped or reordered unnoticed.
#pragma once

#include <cstdint>
#include <string>

#include "engine/base/link_protocol.h"

namespace trainer::launch {

/// The protocol between machines; other versions of it are refused, and have other keys.
inline constexpr const char* kProtocol = "trainer machines 4";
inline constexpr std::size_t kNonceBytes = 32;

/// One direction of a connection. Each message carries a seal as its last string: a MAC of its sequence number and its
/// other content.
class Seal {
 public:
  explicit Seal(std::string key) : key_(std::move(key)) {}

  /// `message` with its seal.
  LinkMessage put_on(LinkMessage message);
  /// `message` without its seal. Errors: PeerError when the seal is invalid.
  LinkMessage take_off(LinkMessage message);

 private:
  std::string hash_of(const LinkMessage& message) const;

  std::string key_;
  uint64_t count_ = 0;
};

/// The seals of a connection whose two ends share `key` and have each drawn a nonce.
struct Seals {
  Seal by_follower, by_leader;
};
Seals make_seals(const std::string& key, const std::string& follower_nonce, const std::string& leader_nonce);

}  // namespace trainer::launch
