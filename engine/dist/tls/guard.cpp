#include "engine/dist/tls/guard.h"

#include <dlfcn.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <shared_mutex>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/base/log.h"
#include "engine/dist/tls/door.h"
#include "engine/dist/tls/redirect.h"

namespace trainer::dist::tls {
namespace {

using std::chrono::steady_clock;

/// For a rank that is alive but gets no processor time. A lost one is the launcher's concern.
constexpr std::chrono::seconds kConnectPatience{60};

constexpr int kPartPatience = 5000;  // ms; Gloo's event loop waits

std::optional<Credentials> credentials;  // set once, before any connection

/// What this process has by descriptor. Empty most of the time for most descriptors: libtorch also reads files.
template <class T>
class ByDescriptor {
 public:
  std::shared_ptr<T> find(int fd) const {
    if (size_.load(std::memory_order_relaxed) == 0) return nullptr;
    const std::shared_lock lock(mutex_);
    const auto found = entries_.find(fd);
    return found != entries_.end() ? found->second : nullptr;
  }
  void add(int fd, std::shared_ptr<T> entry) {
    const std::unique_lock lock(mutex_);
    entries_[fd] = std::move(entry);
    size_ = entries_.size();
  }
  void remove(int fd) {
    if (size_.load(std::memory_order_relaxed) == 0) return;
    std::shared_ptr<T> removed;  // destroyed after the lock is released
    const std::unique_lock lock(mutex_);
    if (const auto found = entries_.find(fd); found != entries_.end()) {
      removed = std::move(found->second);
      entries_.erase(found);
    }
    size_ = entries_.size();
  }

 private:
  mutable std::shared_mutex mutex_;
  std::map<int, std::shared_ptr<T>> entries_;
  std::atomic<std::size_t> size_ = 0;
};

ByDescriptor<Session> sessions;
ByDescriptor<Door> doors;

struct Meeting {
  bool is_open = false;
  std::shared_ptr<Door> door;
};
thread_local Meeting meeting;

bool is_tcp(int family) {
  return family == AF_INET || family == AF_INET6;
}

/// Waits until `fd` is ready. Errors: PeerError at `deadline`.
void wait_for(int fd, short events, steady_clock::time_point deadline, const std::string& peer) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock::now());
    pollfd event{fd, events, 0};
    const int ready = left.count() > 0 ? poll(&event, 1, static_cast<int>(left.count())) : 0;
    if (ready > 0) return;
    if (ready == 0)
      throw PeerError("{}, where another rank should be, did not answer within {} s", peer, kConnectPatience.count());
    if (errno != EINTR) throw machine_error("wait for", peer, errno);
  }
}

/// As ::connect(), but returns only once the connection is made. Returns an errno; 0: none.
int connect_now(int fd, const sockaddr* to, socklen_t size, steady_clock::time_point deadline,
                const std::string& peer) {
  if (::connect(fd, to, size) == 0) return 0;
  if (errno != EINPROGRESS && errno != EINTR) return errno;
  wait_for(fd, POLLOUT, deadline, peer);
  int error = 0;
  socklen_t bytes = sizeof(error);
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) == 0 ? error : errno;
}

int guarded_connect(int fd, const sockaddr* to, socklen_t size) {
  if (!is_tcp(to->sa_family)) return ::connect(fd, to, size);
  sockaddr_storage address{};
  std::memcpy(&address, to, std::min<std::size_t>(size, sizeof(address)));
  const std::string peer = endpoint(address);
  const auto deadline = steady_clock::now() + kConnectPatience;
  if (const int error = connect_now(fd, to, size, deadline, peer); error != 0) {
    errno = error;
    return -1;
  }
  auto session = std::make_shared<Session>(fd, *credentials, peer, /*accepts=*/false);
  try {
    for (auto need = session->shake_hands(); need != Session::Need::kNothing; need = session->shake_hands())
      wait_for(fd, need == Session::Need::kRead ? POLLIN : POLLOUT, deadline, peer);
  } catch (const PeerError& error) {
    throw PeerError("{}, where another rank should be, did not prove that it has the key of this attempt ({})", peer,
                    error.what());
  }
  if (credentials->encrypts) sessions.add(fd, std::move(session));
  return 0;
}

int guarded_listen(int fd, int backlog) {
  const int result = ::listen(fd, backlog);
  sockaddr own{};
  socklen_t size = sizeof(own);
  const bool known = getsockname(fd, &own, &size) == 0;
  if (result != 0 || (known && !is_tcp(own.sa_family))) return result;
  auto door = std::make_shared<Door>(fd, *credentials);
  doors.add(fd, door);
  if (meeting.is_open) meeting.door = std::move(door);  // else it closes with Gloo's socket
  return 0;
}

int guarded_accept(int fd, sockaddr* from, socklen_t* size) {
  const auto door = doors.find(fd);
  if (!door) return ::accept(fd, from, size);
  Door::Guest guest = door->next();
  if (!guest.socket) {
    errno = EAGAIN;
    return -1;
  }
  if (guest.session) sessions.add(guest.socket.get(), std::move(guest.session));
  return guest.socket.release();
}

int guarded_epoll_ctl(int epoll, int operation, int fd, epoll_event* event) {
  const auto door = doors.find(fd);
  const int result = ::epoll_ctl(epoll, operation, door ? door->ready() : fd, event);
  // Gloo would end the process without a word, by destroying a thread that runs.
  if (result != 0 && (errno == ENOMEM || errno == ENOSPC)) throw machine_error("watch", "a connection of ranks", errno);
  return result;
}

/// Reports a connection that was tampered with; Gloo reports any other failure.
ssize_t reported(int fd, ssize_t result) {
  if (result >= 0 || errno != EBADMSG) return result;
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  const bool known = getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  log::write(log::Level::kError,
             fmt::format("the connection with the rank at {} was tampered with: what arrived is not "
                         "what that rank sent (bad record); the connection ends",
                         known ? endpoint(address) : "an unknown address"));
  errno = EBADMSG;
  return result;
}

ssize_t guarded_recv(int fd, void* to, std::size_t count, int flags) {
  const auto session = sessions.find(fd);
  return session ? reported(fd, session->read(to, count)) : ::recv(fd, to, count, flags);
}

/// Gloo calls it only for the first bytes of a connection, once, as soon as something has arrived.
ssize_t guarded_read(int fd, void* to, std::size_t count) {
  const auto session = sessions.find(fd);
  if (!session) return ::read(fd, to, count);
  for (;;) {
    const ssize_t result = session->read(to, count);
    pollfd event{fd, POLLIN, 0};
    const bool is_part = result < 0 && errno == EAGAIN;  // of a record; the rest comes from a peer
    if (!is_part || poll(&event, 1, kPartPatience) == 0) return reported(fd, result);
  }
}

ssize_t guarded_writev(int fd, const iovec* parts, int count) {
  const auto session = sessions.find(fd);
  return session ? reported(fd, session->write(parts, count)) : ::writev(fd, parts, count);
}

ssize_t guarded_write(int fd, const void* from, std::size_t count) {
  const auto session = sessions.find(fd);
  const iovec part{const_cast<void*>(from), count};
  return session ? reported(fd, session->write(&part, 1)) : ::write(fd, from, count);
}

int guarded_close(int fd) {
  sessions.remove(fd);
  doors.remove(fd);
  return ::close(fd);
}

template <class F>
Redirection redirection(const char* name, F* to) {
  return {name, reinterpret_cast<void*>(to)};
}

/// Redirects libtorch's calls. Errors: MachineError.
void take_calls() try {
  const void* const inside = dlsym(RTLD_DEFAULT, "_ZN4gloo9transport3tcp6Socket6acceptEv");
  if (inside == nullptr) throw MachineError("libtorch has no gloo::transport::tcp::Socket::accept()");
  setenv("GLOO_DISABLE_CONNECTION_RETRIES", "1", 1);  // a retry would run, and throw, in Gloo's event loop
  unsetenv("GLOO_DEVICE_TRANSPORT");                  // Gloo's own TLS
  redirect_calls(inside, {redirection("connect", guarded_connect), redirection("listen", guarded_listen),
                          redirection("accept", guarded_accept), redirection("epoll_ctl", guarded_epoll_ctl),
                          redirection("recv", guarded_recv), redirection("read", guarded_read),
                          redirection("writev", guarded_writev), redirection("write", guarded_write),
                          redirection("close", guarded_close)});
} catch (const MachineError& error) {
  throw MachineError(
      "connections between ranks cannot be protected: {}.\n  Use the libtorch that trainer was built with, or set "
      "training.gloo_transport: tcp.",
      error.what());
}

}  // namespace

void guard_connections(Credentials given) {
  require(!credentials && given.key.size() == 32, "connections are guarded once, with a key of 32 bytes");
  credentials = std::move(given);
}

Rendezvous::Rendezvous() {
  static std::once_flag once;
  if (credentials) std::call_once(once, take_calls);
  meeting = {.is_open = credentials.has_value()};
}

Rendezvous::~Rendezvous() {
  if (meeting.door) meeting.door->shut();
  meeting = {};
}

void Rendezvous::check_guarded() const {
  require(!meeting.is_open || meeting.door, "Gloo listens on a port that is not guarded");
}

}  // namespace trainer::dist::tls
