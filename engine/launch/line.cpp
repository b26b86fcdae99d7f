#include "engine/launch/line.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace trainer::launch {
namespace {

/// Whether a call on a socket failed only for the moment. Without memory the other end isn't gone.
bool may_work_later(int error) {
  return error == EAGAIN || error == ENOMEM || error == ENOBUFS;
}

}  // namespace

std::vector<LinkMessage> Line::receive() {
  std::vector<LinkMessage> messages;
  char bytes[64 << 10];
  constexpr int kMostAtOnce = 64;  // a sender that floods us must not block the others
  for (int i = 0; is_open() && i < kMostAtOnce; ++i) {
    ssize_t count = recv(fd(), bytes, sizeof(bytes), MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && may_work_later(errno)) break;
    if (count <= 0) {
      closed_by_peer_ = count == 0 || errno == ECONNRESET;
      why_closed_ = count == 0 ? "it closed the connection" : std::strerror(errno);
      close();
      break;
    }
    frames_.append({bytes, static_cast<size_t>(count)});
    while (auto message = frames_.next()) messages.push_back(std::move(*message));
  }
  return messages;
}

void Line::send(const LinkMessage& message) {
  unsent_ += encode_frame(message, kMaxMachineFrame);
  flush();
}

void Line::flush() {
  while (has_unsent()) {
    ssize_t count = ::send(fd(), unsent_.data(), unsent_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && may_work_later(errno)) return;
    if (count < 0)
      unsent_.clear();  // the other end is gone; receive() will notice, and may still find messages
    else
      unsent_.erase(0, static_cast<size_t>(count));
  }
}

}  // namespace trainer::launch
