#include "engine/launch/status_server.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <exception>

#include "engine/base/errors.h"
#include "engine/launch/port_holder.h"

namespace trainer::launch {
namespace {

constexpr std::size_t kMostAtOnce = 16;  // new connections, and events of others, in one call
constexpr std::chrono::seconds kPauseWithoutDescriptors{1};

FileDescriptor listen_for(const StatusServer::Purpose& purpose, const Address& address) {
  FileDescriptor socket = try_listen(address);
  if (socket) return socket;
  const int error = errno;
  const std::string holder = error == EADDRINUSE ? holder_of(address) : "";
  throw MachineError("cannot serve {} on {}: {}\n  set another {}", purpose.what, address.text(),
                     why_not_listening(error, holder),
                     error == EADDRNOTAVAIL ? purpose.address_option : purpose.port_option);
}

}  // namespace

StatusServer::StatusServer(const std::vector<Address>& addresses, Respond respond, std::chrono::milliseconds patience)
    : StatusServer(addresses, std::move(respond), patience, Purpose{}) {}

StatusServer::StatusServer(const std::vector<Address>& addresses, Respond respond, std::chrono::milliseconds patience,
                           const Purpose& purpose)
    : respond_(std::move(respond)),
      patience_(patience),
      events_(epoll_create1(EPOLL_CLOEXEC)),
      timer_(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {
  if (!events_ || !timer_) throw MachineError("cannot serve {}: {}", purpose.what, std::strerror(errno));
  watch(timer_.get(), EPOLLIN, EPOLL_CTL_ADD);
  for (const Address& address : addresses) {
    listeners_.push_back(listen_for(purpose, address));
    watch(listeners_.back().get(), EPOLLIN, EPOLL_CTL_ADD);
  }
}

void StatusServer::watch(int fd, uint32_t events, int operation) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  epoll_ctl(events_.get(), operation, fd, &event);
}

void StatusServer::serve() {
  std::array<epoll_event, kMostAtOnce> events;
  const int count = epoll_wait(events_.get(), events.data(), static_cast<int>(events.size()), 0);
  bool connects = false;
  for (int i = 0; i < count; ++i) {
    const int fd = events[static_cast<std::size_t>(i)].data.fd;
    const auto has_fd = [&](const auto& owner) { return owner.get() == fd; };
    if (fd == timer_.get()) continue;  // set_timer() also makes it unreadable
    if (std::any_of(listeners_.begin(), listeners_.end(), has_fd)) {
      connects = true;
      continue;
    }
    const auto found = std::find_if(connections_.begin(), connections_.end(),
                                    [&](const Connection& connection) { return connection.socket.get() == fd; });
    if (found != connections_.end()) advance(found);
  }
  close_overdue();
  if (listens_again_ && Clock::now() >= *listens_again_) pause_listening(false);
  if (connects && !listens_again_) accept_all();  // last: a new socket may get the number of one that was closed
  set_timer();
}

void StatusServer::accept_all() {
  for (const FileDescriptor& listener : listeners_)
    for (std::size_t i = 0; i < kMostAtOnce && accept_from(listener.get()); ++i) {
    }
}

/// Whether another connection may be pending.
bool StatusServer::accept_from(int listener) {
  FileDescriptor socket(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) {
    const int error = errno;
    if (lacks_descriptors(error)) pause_listening(true);  // the listener would stay readable, and keep the loop busy
    return error == ECONNABORTED || error == EINTR;
  }
  if (connections_.size() >= kMostConnections) drop(connections_.begin());
  watch(socket.get(), EPOLLIN, EPOLL_CTL_ADD);
  connections_.push_back({.socket = std::move(socket), .end = Clock::now() + patience_});
  return true;
}

/// A child process that was forked meanwhile may hold a copy of the socket, so closing it wouldn't end its events.
void StatusServer::drop(std::list<Connection>::iterator connection) {
  watch(connection->socket.get(), 0, EPOLL_CTL_DEL);
  shutdown(connection->socket.get(), SHUT_RDWR);
  connections_.erase(connection);
}

void StatusServer::pause_listening(bool pause) {
  if (pause == listens_again_.has_value()) return;
  for (const FileDescriptor& listener : listeners_)
    watch(listener.get(), pause ? 0U : uint32_t{EPOLLIN}, EPOLL_CTL_MOD);
  listens_again_ = pause ? std::optional(Clock::now() + kPauseWithoutDescriptors) : std::nullopt;
}

void StatusServer::advance(std::list<Connection>::iterator connection) {
  using State = Connection::State;
  try {
    if (connection->state == State::kReading) read(*connection);
    if (connection->state == State::kWriting) write(*connection);
    if (connection->state == State::kDraining) drain(*connection);
  } catch (const std::exception&) {  // such as no memory: the run is worth more than this answer
    connection->state = State::kClosed;
  }
  if (connection->state == State::kClosed) drop(connection);
}

void StatusServer::read(Connection& connection) {
  std::array<char, kMostRequestBytes> bytes;
  const ssize_t count = recv(connection.socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) {
    connection.state = Connection::State::kClosed;
    return;
  }
  connection.received.append(bytes.data(), static_cast<std::size_t>(count));
  const std::optional<HttpRequest> request = parse_request(connection.received);
  if (!request) return;
  connection.unsent = to_bytes(response_to(*request), request->wants_body);
  connection.state = Connection::State::kWriting;
}

HttpResponse StatusServer::response_to(const HttpRequest& request) const {
  if (request.refusal == 0) return respond_(request.path);
  return {.status = request.refusal, .body = "this server answers GET and HEAD of a path, in at most 8 KiB\n"};
}

void StatusServer::write(Connection& connection) {
  const ssize_t count =
      send(connection.socket.get(), connection.unsent.data(), connection.unsent.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (count < 0 && errno != EAGAIN && errno != EINTR) {
    connection.state = Connection::State::kClosed;
    return;
  }
  if (count > 0) connection.unsent.erase(0, static_cast<std::size_t>(count));
  const bool sent = connection.unsent.empty();
  watch(connection.socket.get(), sent ? EPOLLIN : EPOLLOUT, EPOLL_CTL_MOD);
  if (!sent) return;
  // Closing a socket with unread bytes in it would discard what it has sent.
  shutdown(connection.socket.get(), SHUT_WR);
  connection.state = Connection::State::kDraining;
}

/// Reads until the client has closed its end too.
void StatusServer::drain(Connection& connection) {
  std::array<char, kMostRequestBytes> bytes;
  const ssize_t count = recv(connection.socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) connection.state = Connection::State::kClosed;
}

void StatusServer::close_overdue() {
  while (!connections_.empty() && connections_.front().end <= Clock::now()) drop(connections_.begin());
}

/// For the first deadline; without one it never expires.
void StatusServer::set_timer() {
  std::optional<Clock::time_point> next = listens_again_;
  if (!connections_.empty()) next = std::min(next.value_or(connections_.front().end), connections_.front().end);
  itimerspec time{};
  if (next) {
    const auto left = std::max<std::chrono::nanoseconds>(*next - Clock::now(), std::chrono::nanoseconds(1));
    time.it_value.tv_sec = static_cast<time_t>(left / std::chrono::seconds(1));
    time.it_value.tv_nsec = static_cast<long>((left % std::chrono::seconds(1)).count());
  }
  timerfd_settime(timer_.get(), 0, &time, nullptr);
}

}  // namespace trainer::launch
