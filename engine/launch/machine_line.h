// A connection to another machine's supervisor.
#pragma once

#include <deque>
#include <optional>

#include "engine/launch/line.h"
#include "engine/launch/seal.h"

namespace trainer::launch {

/// A Line whose messages carry seals (MACs) once both ends have drawn their nonces. Before that it accepts only short
/// messages: any program may have connected.
class MachineLine {
 public:
  explicit MachineLine(FileDescriptor socket) : line_(std::move(socket), kMostBeforeSeal) {}

  int fd() const { return line_.fd(); }
  bool is_open() const { return line_.is_open(); }
  bool has_unsent() const { return line_.has_unsent(); }
  void close() { line_.close(); }
  const std::string& why_closed() const { return line_.why_closed(); }
  bool closed_by_peer() const { return line_.closed_by_peer(); }
  void flush() { line_.flush(); }

  /// All messages from now on carry these seals. Lengths stay limited to what strangers may send until trust().
  void seal(Seal ours, Seal theirs);
  /// The other end has proved that it knows the secret.
  void trust() { line_.allow(kMaxMachineFrame); }

  /// What a file contains is encrypted if the run has a secret; the other end applies show() to each text in order.
  void encrypt() { encrypts_ = true; }
  std::string hide(std::string_view bytes) { return encrypts_ ? ours_->hide(bytes) : std::string(bytes); }
  std::string show(std::string_view bytes) { return encrypts_ ? theirs_->hide(bytes) : std::string(bytes); }

  void send(const LinkMessage& message);
  /// Ends sending. Flushes what the socket accepts.
  void end();

  /// The next message that has arrived; nothing if none has, or the other end has closed the line.
  /// Errors: PeerError for malformed bytes and for an invalid seal.
  std::optional<LinkMessage> next();

 private:
  static constexpr uint32_t kMostBeforeSeal = 256 << 10;  // an introduction with all its options

  Line line_;
  std::optional<Seal> ours_, theirs_;
  bool encrypts_ = false;
  std::deque<LinkMessage> arrived_;
};

}  // namespace trainer::launch
