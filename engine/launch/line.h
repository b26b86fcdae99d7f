// The supervisor's end of a connection: to a rank, or to another machine's supervisor.
#pragma once

#include <string>
#include <vector>

#include "engine/base/file_descriptor.h"
#include "engine/base/link_protocol.h"

namespace trainer::launch {

/// Sends and receives without ever waiting: the supervisor serves everybody in one loop.
class Line {
 public:
  /// Frames of more than `most` bytes are no messages.
  explicit Line(FileDescriptor socket = FileDescriptor(), uint32_t most = kMaxLinkFrame)
      : socket_(std::move(socket)), frames_(most) {}

  int fd() const { return socket_.get(); }
  bool is_open() const { return static_cast<bool>(socket_); }
  bool has_unsent() const { return is_open() && !unsent_.empty(); }

  /// The messages that have arrived; closes the line when the other end has closed it.
  /// Errors: PeerError for bytes that are no message.
  std::vector<LinkMessage> receive();

  /// Sends now what the socket takes, and keeps the rest for flush().
  void send(const LinkMessage& message);
  void flush();
  void close() { socket_.reset(); }
  /// What ended the line from the other side, in words.
  const std::string& why_closed() const { return why_closed_; }
  void allow(uint32_t most) { frames_.allow(most); }

 private:
  FileDescriptor socket_;
  FrameReader frames_;
  std::string unsent_;
  std::string why_closed_;
};

}  // namespace trainer::launch
