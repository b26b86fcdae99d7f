// The supervisor's end of a connection: to a rank, or to another machine's supervisor.
#pragma once

#include <string>
#include <vector>

#include "engine/base/file_descriptor.h"
#include "engine/base/link_protocol.h"

namespace trainer::launch {

/// Sends and receives without blocking: the supervisor serves all connections in one loop.
class Line {
 public:
  /// Frames of more than `most` bytes are malformed.
  explicit Line(FileDescriptor socket = FileDescriptor(), uint32_t most = kMaxLinkFrame)
      : socket_(std::move(socket)), frames_(most) {}

  int fd() const { return socket_.get(); }
  bool is_open() const { return static_cast<bool>(socket_); }
  bool has_unsent() const { return is_open() && !unsent_.empty(); }

  /// The messages that have arrived; closes the line when the other end has closed it.
  /// Errors: PeerError for malformed bytes.
  std::vector<LinkMessage> receive();

  /// Sends what the socket accepts now, and keeps the rest for flush().
  void send(const LinkMessage& message);
  void flush();
  void close() { socket_.reset(); }
  /// Why the other side closed the line.
  const std::string& why_closed() const { return why_closed_; }
  /// The other side closed it, by itself or with its process, as opposed to a network that failed.
  bool closed_by_peer() const { return closed_by_peer_; }
  void allow(uint32_t most) { frames_.allow(most); }

 private:
  FileDescriptor socket_;
  FrameReader frames_;
  std::string unsent_;
  std::string why_closed_;
  bool closed_by_peer_ = false;
};

}  // namespace trainer::launch
