// The supervisor's end of a rank's link.
#pragma once

#include <string>
#include <vector>

#include "engine/base/file_descriptor.h"
#include "engine/base/link_protocol.h"

namespace trainer::launch {

/// Sends and receives without ever waiting: the supervisor serves all ranks in one loop.
class RankLine {
 public:
  explicit RankLine(FileDescriptor socket = FileDescriptor()) : socket_(std::move(socket)) {}

  int fd() const { return socket_.get(); }
  bool is_open() const { return static_cast<bool>(socket_); }
  bool has_unsent() const { return is_open() && !unsent_.empty(); }

  /// The messages that have arrived; closes the line when the rank has closed it.
  /// Errors: PeerError for bytes that are no message.
  std::vector<LinkMessage> receive();

  /// Sends now what the socket takes, and keeps the rest for flush().
  void send(const LinkMessage& message);
  void flush();
  void close() { socket_.reset(); }

 private:
  FileDescriptor socket_;
  FrameReader frames_;
  std::string unsent_;
};

}  // namespace trainer::launch
