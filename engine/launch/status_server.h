// A small HTTP server inside the launcher's event loop.
#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/file_descriptor.h"
#include "engine/launch/address.h"
#include "engine/launch/http_request.h"

namespace trainer::launch {

/// Answers one request per connection. Never blocks, and no client can end or delay the run: the number of connections,
/// the size of a request and the time that a client may take are limited, and each call of serve() does bounded work.
class StatusServer {
 public:
  using Clock = std::chrono::steady_clock;
  using Respond = std::function<HttpResponse(const std::string& path)>;

  static constexpr std::size_t kMostConnections = 32;  // with one more, the oldest is closed

  /// What is served, and the options that say where, for messages.
  struct Purpose {
    const char* what = "metrics";
    const char* address_option = "logging.metrics_address (--metrics_address)";
    const char* port_option = "logging.metrics_port (--metrics_port), or metrics_port: 0 for none";
  };

  /// Listens on these addresses. `patience`: from the acceptance of a connection to its end.
  /// Errors: MachineError when it can't listen on one of them.
  StatusServer(const std::vector<Address>& addresses, Respond respond,
               std::chrono::milliseconds patience = std::chrono::seconds(5));
  StatusServer(const std::vector<Address>& addresses, Respond respond, std::chrono::milliseconds patience,
               const Purpose& purpose);
  StatusServer(const StatusServer&) = delete;
  StatusServer& operator=(const StatusServer&) = delete;

  /// Becomes readable when serve() has something to do, a time-out included.
  int fd() const { return events_.get(); }
  /// Doesn't wait.
  void serve();

 private:
  struct Connection {
    FileDescriptor socket;
    Clock::time_point end;  // then it is closed
    std::string received{};
    std::string unsent{};
    enum class State { kReading, kWriting, kDraining, kClosed } state = State::kReading;
  };

  void watch(int fd, uint32_t events, int operation);
  void accept_all();
  bool accept_from(int listener);
  void drop(std::list<Connection>::iterator connection);
  void advance(std::list<Connection>::iterator connection);
  void read(Connection& connection);
  void write(Connection& connection);
  static void drain(Connection& connection);
  HttpResponse response_to(const HttpRequest& request) const;
  void close_overdue();
  void pause_listening(bool pause);
  void set_timer();

  Respond respond_;
  const std::chrono::milliseconds patience_;
  FileDescriptor events_;  // an epoll instance of everything below
  FileDescriptor timer_;
  std::vector<FileDescriptor> listeners_;
  std::list<Connection> connections_;               // the oldest first
  std::optional<Clock::time_point> listens_again_;  // after the process ran out of file descriptors
};

}  // namespace trainer::launch
