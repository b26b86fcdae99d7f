#include "engine/launch/rank_line.h"

#include <sys/socket.h>

#include <cerrno>

namespace trainer::launch {

std::vector<LinkMessage> RankLine::receive() {
  std::vector<LinkMessage> messages;
  char bytes[64 << 10];
  while (is_open()) {
    ssize_t count = recv(fd(), bytes, sizeof(bytes), MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) break;
    if (count <= 0) {
      close();
      break;
    }
    frames_.append({bytes, static_cast<size_t>(count)});
    while (auto message = frames_.next()) messages.push_back(std::move(*message));
  }
  return messages;
}

void RankLine::send(const LinkMessage& message) {
  unsent_ += encode_frame(message);
  flush();
}

void RankLine::flush() {
  while (has_unsent()) {
    ssize_t count = ::send(fd(), unsent_.data(), unsent_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count < 0)
      unsent_.clear();  // the rank is gone, and its death is about to be seen; receive() may still find words
    else
      unsent_.erase(0, static_cast<size_t>(count));
  }
}

}  // namespace trainer::launch
