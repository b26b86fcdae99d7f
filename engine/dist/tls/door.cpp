#include "engine/dist/tls/door.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/base/log.h"
#include "engine/base/signals_blocked.h"

namespace trainer::dist::tls {
namespace {

constexpr int kMostRefusalsLogged = 20;
constexpr int kMostAtATime = 16;                          // connections; then visitors, and the end, have their turn
constexpr std::chrono::milliseconds kForResources{50};  // until a visitor may have left

void add_one(int event) {
  eventfd_write(event, 1);
}

std::string bound_endpoint(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw machine_error("read the address of", "a socket", errno);
  return endpoint(address);
}

}  // namespace

std::string endpoint(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "?";
  if (address.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
    return fmt::format("[{}]:{}", text, ntohs(v6.sin6_port));
  }
  const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
  inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text));
  return fmt::format("{}:{}", text, ntohs(v4.sin_port));
}

Door::Door(int listener, const Credentials& credentials)
    : credentials_(credentials),
      listener_(fcntl(listener, F_DUPFD_CLOEXEC, 0)),
      ready_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE)),
      end_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!listener_ || !ready_ || !end_) throw machine_error("watch", "a port for other ranks", errno);
  name_ = bound_endpoint(listener_.get());
  const AllSignalsBlocked blocked;  // they are for the main thread
  thread_ = std::thread([this] { serve(); });
}

void Door::shut() {
  if (!thread_.joinable()) return;
  add_one(end_.get());
  thread_.join();
  shutdown(listener_.get(), SHUT_RDWR);  // Gloo's copy too no longer listens
  listener_.reset();
  for (const Visitor& visitor : visitors_) refuse(visitor, "not before all ranks were connected");
  visitors_.clear();
}

Door::Guest Door::next() {
  const std::lock_guard lock(mutex_);
  if (guests_.empty()) return {};
  eventfd_t one;
  eventfd_read(ready_.get(), &one);
  Guest guest = std::move(guests_.front());
  guests_.pop();
  return guest;
}

void Door::serve() {
  for (bool open = true; open;) {
    try {
      open = serve_once();
    } catch (const std::exception&) {  // no memory: it ends no rank; the connection that needed it is closed
      std::this_thread::sleep_for(kForResources);
    }
  }
}

/// False at the end.
bool Door::serve_once() {
  std::vector<pollfd> events{{end_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
  for (const Visitor& visitor : visitors_)
    events.push_back(
        {visitor.socket.get(), static_cast<short>(visitor.need == Session::Need::kWrite ? POLLOUT : POLLIN), 0});
  int wait = -1;
  if (!visitors_.empty()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(visitors_.front().deadline - Clock::now());
    wait = static_cast<int>(std::max<int64_t>(left.count(), 0));
  }
  if (poll(events.data(), events.size(), wait) < 0) return true;  // only EINTR, or memory that may be there again
  if (events[0].revents != 0) return false;
  auto event = events.begin() + 2;
  for (auto visitor = visitors_.begin(); visitor != visitors_.end(); ++event)
    visitor = goes_on(*visitor, event->revents != 0) ? std::next(visitor) : visitors_.erase(visitor);
  if (events[1].revents != 0) take_connections();
  return true;
}

void Door::take_connections() {
  sockaddr_storage address{};
  for (int i = 0; i < kMostAtATime; ++i) {
    socklen_t size = sizeof(address);
    FileDescriptor socket(
        accept4(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
      if (errno == EMFILE || errno == ENFILE) std::this_thread::sleep_for(kForResources);
      return;
    }
    if (visitors_.size() >= kMostAtOnce) {
      refuse(visitors_.front(), "too many connect at once");
      visitors_.pop_front();
    }
    auto session = std::make_shared<Session>(socket.get(), credentials_, name_, /*accepts=*/true);
    visitors_.push_back({std::move(socket), endpoint(address), std::move(session), Clock::now() + kPatience});
  }
}

/// Whether the handshake of `visitor` continues; otherwise it is a guest, or refused.
bool Door::goes_on(Visitor& visitor, bool is_ready) {
  try {
    if (is_ready) visitor.need = visitor.session->shake_hands();
    if (visitor.need != Session::Need::kNothing) {
      if (Clock::now() < visitor.deadline) return true;
      throw PeerError("not within {} s", kPatience.count());
    }
  } catch (const std::exception& error) {
    refuse(visitor, error.what());
    return false;
  }
  if (!credentials_.encrypts) visitor.session.reset();
  const std::lock_guard lock(mutex_);
  guests_.push({std::move(visitor.socket), std::move(visitor.session)});
  add_one(ready_.get());
  return false;
}

void Door::refuse(const Visitor& visitor, const std::string& why) {
  if (++refused_ > kMostRefusalsLogged) return;
  log::warning(
      "refused a connection from {} to {}, where this rank meets the others: it did not prove that it has the "
      "key of this attempt ({}){}",
      visitor.name, name_, why, refused_ == kMostRefusalsLogged ? "; more refusals are not logged" : "");
}

}  // namespace trainer::dist::tls
