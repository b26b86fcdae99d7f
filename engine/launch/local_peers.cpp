#include "engine/launch/local_peers.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "engine/base/errors.h"
#include "engine/base/hex.h"
#include "engine/launch/screen.h"
#include "engine/launch/secret.h"
#include "engine/launch/signals.h"

namespace trainer::launch {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kPause{100};           // between tries to find the first process
constexpr milliseconds kUntilSaid{5'000};     // of waiting, until it is reported
constexpr milliseconds kLateArrivals{5'000};  // for peers that start after the run has ended
constexpr uint32_t kGreeting = 0x7472616e;    // identifies this version of the protocol

/// A peer's only message. The reply is the exit code, an int32_t.
struct Hello {
  uint32_t greeting = kGreeting;
  int32_t local_rank = 0;
  cpu_set_t cpus{};
  char gpu[100]{};  // terminated
};

/// The abstract socket of a job of this user. The job's name is hashed, as it may be longer than an address.
sockaddr_un address_of(const std::string& job, socklen_t& size) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = fmt::format("trainer-{}-{}", geteuid(), hex(keyed_hash("mates", job).substr(0, 16)));
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

FileDescriptor make_socket() {
  FileDescriptor made(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!made) throw MachineError("cannot create a socket: {}", std::strerror(errno));
  return made;
}

bool is_of_this_user(int socket) {
  ucred other{};
  socklen_t size = sizeof other;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &other, &size) == 0 && other.uid == geteuid();
}

}  // namespace

LocalPeers::LocalPeers(const std::string& job, int count) : count_(count), listener_(make_socket()) {
  socklen_t size = 0;
  const sockaddr_un address = address_of(job, size);
  if (bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      listen(listener_.get(), count) != 0)
    throw MachineError(
        "cannot wait for the other processes of this job: {}\n  is another `trainer launch` with the same "
        "variables still running on this machine?",
        std::strerror(errno));
}

LocalPeers::~LocalPeers() = default;

void LocalPeers::accept_some(milliseconds patience) {
  pollfd event{listener_.get(), POLLIN, 0};
  if (poll(&event, 1, static_cast<int>(patience.count())) <= 0) return;
  Peer peer{.socket = FileDescriptor(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)), .place = {}};
  if (!peer.socket || !is_of_this_user(peer.socket.get())) return;
  Hello hello;
  event = {peer.socket.get(), POLLIN, 0};
  const bool said = poll(&event, 1, static_cast<int>(kPause.count())) == 1 &&
                    recv(peer.socket.get(), &hello, sizeof hello, MSG_DONTWAIT) == static_cast<ssize_t>(sizeof hello);
  if (!said || hello.greeting != kGreeting || hello.local_rank < 1 || hello.local_rank > count_) return;
  hello.gpu[sizeof hello.gpu - 1] = '\0';
  peer.place = {hello.cpus, hello.gpu};
  peers_[hello.local_rank] = std::move(peer);
}

void LocalPeers::gather(milliseconds patience) {
  const Clock::time_point begin = Clock::now();
  bool said = false;
  while (!are_all_here()) {
    accept_some(kPause);
    const auto waited = Clock::now() - begin;
    if (!said && waited > kUntilSaid && !are_all_here()) {
      say("trainer: waiting for {} of the {} processes of this machine\n", count_ - std::ssize(peers_), count_ + 1);
      said = true;
    }
    if (waited > patience)
      throw PeerError(
          "{} of the {} processes of this machine did not connect within {:g} s: all must run `trainer launch`",
          count_ - std::ssize(peers_), count_ + 1, std::chrono::duration<double>(patience).count());
  }
}

std::vector<PeerPlace> LocalPeers::places() const {
  std::vector<PeerPlace> all{own_place()};
  for (const auto& [rank, peer] : peers_) all.push_back(peer.place);
  return all;
}

void LocalPeers::dismiss(int code) {
  const Clock::time_point end = Clock::now() + kLateArrivals;
  while (!are_all_here() && Clock::now() < end) accept_some(kPause);
  const auto answer = static_cast<int32_t>(code);
  for (const auto& [rank, peer] : peers_) send(peer.socket.get(), &answer, sizeof answer, MSG_NOSIGNAL | MSG_DONTWAIT);
  peers_.clear();
}

int follow(const std::string& job, int local_rank, milliseconds patience) {
  socklen_t size = 0;
  const sockaddr_un address = address_of(job, size);
  FileDescriptor first;
  for (const Clock::time_point end = Clock::now() + patience; !first;) {
    FileDescriptor tried = make_socket();
    if (connect(tried.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0) {
      first = std::move(tried);
    } else if (Clock::now() > end) {
      throw PeerError("the first process of this machine was not reached within {:g} s",
                      std::chrono::duration<double>(patience).count());
    } else {
      poll(nullptr, 0, static_cast<int>(kPause.count()));
    }
  }
  const SignalQueue passed_by;
  if (!is_of_this_user(first.get())) throw PeerError("the first process of this machine belongs to another user");
  const PeerPlace place = own_place();
  Hello hello{.local_rank = local_rank, .cpus = place.cpus};
  place.gpu.copy(hello.gpu, sizeof hello.gpu - 1);
  int32_t code = 0;
  if (send(first.get(), &hello, sizeof hello, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof hello) ||
      recv(first.get(), &code, sizeof code, 0) != static_cast<ssize_t>(sizeof code))
    throw PeerError("the first process of this machine, which ran its ranks, was lost");
  return code;
}

}  // namespace trainer::launch
