// A connection to another machine's supervisor.
#pragma once

#include <deque>
#include <optional>

#include "engine/launch/line.h"
#include "engine/launch/seal.h"

namespace trainer::launch {

/// A Line whose messages are sealed as soon as both ends have drawn their nonces. Until then it takes short ones only:
/// anybody may have connected.
class MachineLine {
 public:
  explicit MachineLine(FileDescriptor socket) : line_(std::move(socket), kMostBeforeSeal) {}

  int fd() const { return line_.fd(); }
  bool is_open() const { return line_.is_open(); }
  bool has_unsent() const { return line_.has_unsent(); }
  void close() { line_.close(); }
  const std::string& why_closed() const { return line_.why_closed(); }
  void flush() { line_.flush(); }

  /// All that follow carry these seals. Lengths are held to what strangers may send until `trust`.
  void seal(Seal ours, Seal theirs);
  /// The other end has proved that it knows the secret.
  void trust() { line_.allow(kMaxMachineFrame); }

  void send(const LinkMessage& message);
  /// Nothing more will be sent; what was is on its way as far as the socket takes it.
  void end();

  /// The next message that has arrived; none also when the other end has closed the line.
  /// Errors: PeerError for bytes that are no message, and for a seal that is broken.
  std::optional<LinkMessage> next();

 private:
  static constexpr uint32_t kMostBeforeSeal = 256 << 10;  // an introduction with all its options

  Line line_;
  std::optional<Seal> ours_, theirs_;
  std::deque<LinkMessage> arrived_;
};

}  // namespace trainer::launch
