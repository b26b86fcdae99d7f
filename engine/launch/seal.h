// Authenticates messages: without the key, none can be forged, changed, replayed, dropped or reordered unnoticed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/link_protocol.h"

namespace trainer::launch {

/// The protocol between machines; other versions of it are refused, and have other keys.
inline constexpr const char* kProtocol = "trainer machines 6";
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

  /// Encrypts the contents of a file, or decrypts what the other end has encrypted, in the order in which they are sent
  /// (AES-256-CTR, with its own key; the message's seal authenticates it). At most kMostHidden bytes at a time.
  static constexpr std::size_t kMostHidden = std::size_t{16} << 20;
  std::string hide(std::string_view bytes);

 private:
  std::string hash_of(const LinkMessage& message) const;

  std::string key_;
  uint64_t count_ = 0, hidden_ = 0;
};

/// The seals of a connection whose two ends share `key` and have each drawn a nonce, under a leader's epoch (Note
/// [Leader epochs]): what was sealed under another epoch is invalid.
struct Seals {
  Seal by_follower, by_leader;
};
Seals make_seals(const std::string& key, const std::string& follower_nonce, const std::string& leader_nonce,
                 int64_t leader_epoch);

}  // namespace trainer::launch
