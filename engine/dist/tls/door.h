// Lets only peers in.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <list>
#include <memory>
#include <mutex>
#include <queue>
#include <string>
#include <thread>

#include "engine/base/file_descriptor.h"
#include "engine/dist/tls/session.h"

namespace trainer::dist::tls {

/// "10.0.0.2:4711", "[fd99::1]:4711". Names the accepting end of a connection.
std::string endpoint(const sockaddr_storage& address);

/// Accepts the connections to a listening socket in a thread of its own, and hands on those whose other end has the
/// key. The others are closed and named in the log: who sends anything else, or nothing for kPatience. While many are
/// under way the oldest makes room, so that strangers who stay silent keep nobody out.
class Door {
 public:
  static constexpr std::chrono::seconds kPatience{60};  // as long as a peer that connects waits
  static constexpr std::size_t kMostAtOnce = 256;

  struct Guest {
    FileDescriptor socket{};
    std::shared_ptr<Session> session;  // null: the connection continues in clear
  };

  /// Of the listening socket `listener`, of which it keeps a copy. Errors: MachineError.
  Door(int listener, const Credentials& credentials);
  ~Door() { shut(); }
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  /// Readable while a guest waits.
  int ready() const { return ready_.get(); }
  /// The next guest; without a socket when none waits.
  Guest next();
  /// Closes the port: from now on the kernel refuses connections. Guests that wait remain.
  void shut();

 private:
  using Clock = std::chrono::steady_clock;
  struct Visitor {
    FileDescriptor socket{};
    std::string name;
    std::shared_ptr<Session> session;
    Clock::time_point deadline;
    Session::Need need = Session::Need::kRead;
  };

  void serve();
  bool serve_once();
  void take_connections();
  bool goes_on(Visitor& visitor, bool is_ready);
  void refuse(const Visitor& visitor, const std::string& why);

  const Credentials credentials_;
  FileDescriptor listener_, ready_, end_;
  std::string name_;
  int refused_ = 0;
  std::list<Visitor> visitors_;  // the oldest first
  std::mutex mutex_;             // guards guests_
  std::queue<Guest> guests_;
  std::thread thread_;
};

}  // namespace trainer::dist::tls
