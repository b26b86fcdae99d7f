#include "engine/launch/machine_line.h"

#include <sys/socket.h>

namespace trainer::launch {

void MachineLine::seal(Seal ours, Seal theirs) {
  ours_ = std::move(ours);
  theirs_ = std::move(theirs);
}

void MachineLine::send(const LinkMessage& message) {
  if (is_open()) line_.send(ours_ ? ours_->put_on(message) : message);
}

void MachineLine::end() {
  flush();
  if (is_open() && !has_unsent()) shutdown(fd(), SHUT_WR);
}

std::optional<LinkMessage> MachineLine::next() {
  if (arrived_.empty()) {
    for (LinkMessage& message : line_.receive()) arrived_.push_back(std::move(message));
  }
  if (arrived_.empty()) return std::nullopt;
  LinkMessage message = std::move(arrived_.front());
  arrived_.pop_front();
  return theirs_ ? theirs_->take_off(std::move(message)) : message;
}

}  // namespace trainer::launch
