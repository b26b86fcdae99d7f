#include "engine/launch/herald.h"

#include "engine/base/errors.h"
#include "engine/launch/address.h"
#include "engine/launch/background.h"
#include "engine/launch/secret.h"

namespace trainer::launch {
namespace {

constexpr std::chrono::milliseconds kEvery{500};
constexpr std::chrono::seconds kPatience{3};  // with what answers there

}  // namespace

void Herald::serve() {
  if (!line_) return connect();
  try {
    line_->flush();
    while (const auto message = line_->next()) {
      if (std::exchange(told_, true)) continue;  // until it hangs up
      if (message->op != LinkOp::kChallenge || message->strings.size() != 2 || message->strings[0] != kProtocol ||
          message->strings[1].size() != kNonceBytes)
        throw PeerError("no machine of this run");
      Seals seals = make_seals(to_.key, nonce_, message->strings[1], message->number);
      line_->seal(std::move(seals.by_follower), std::move(seals.by_leader));
      line_->send({.op = LinkOp::kLeads,
                   .code = leader_.machine,
                   .number = epoch_,
                   .strings = {leader_.host, std::to_string(leader_.port)}});
      line_->end();
    }
    if (line_->is_open() && Clock::now() < deadline_) return;
  } catch (const PeerError&) {  // a stranger, or one with another secret
  }
  line_.reset();
}

void Herald::connect() {
  if (is_done(connecting_)) {
    FileDescriptor socket = connecting_.get();
    if (!socket) return;
    line_.emplace(std::move(socket));
    nonce_ = random_bytes(kNonceBytes);
    told_ = false;
    deadline_ = Clock::now() + kPatience;
    return line_->send({.op = LinkOp::kHello, .strings = {kProtocol, nonce_}});
  }
  if (connecting_.valid() || Clock::now() < next_) return;
  next_ = Clock::now() + kEvery;
  connecting_ = in_background([host = to_.host, port = to_.port] {
    try {
      return connect_to_host(host, port);
    } catch (const PeerError&) {
      return FileDescriptor();
    }
  });
}

void Herald::add_events(std::vector<pollfd>& events) const {
  if (line_ && line_->is_open())
    events.push_back({line_->fd(), static_cast<short>(line_->has_unsent() ? POLLIN | POLLOUT : POLLIN), 0});
}

}  // namespace trainer::launch
