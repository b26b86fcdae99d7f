// The other machines of a run.
//
// Note [Several machines]
// Machine 0 is the leader, the others are its followers; a follower talks only to the leader. The store requests of a
// follower's ranks go through their own supervisor to the leader's. Messages carry a seal whose key is derived from the
// run's secret and nonces of both ends. The meeting (meeting.h) ends when every machine is connected and all agree on
// what to run. The leader decides how a run ends: every failure is reported to it, and it sends all machines one
// outcome.
#pragma once

#include <poll.h>

#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/errors.h"
#include "engine/launch/machine_line.h"
#include "engine/launch/store.h"

namespace trainer::launch {

/// Between two pings on a connection of machines.
inline constexpr std::chrono::seconds kPingEvery{1};

/// Another machine, and the messages it has sent.
struct Machine {
  int number = 0;
  std::string name;  // "machine 1 (node-b, 10.0.0.2)"
  MachineLine line;
  Clock::time_point heard = Clock::now();
  std::deque<LinkMessage> inbox{};
  std::string lost{};  // why it was lost; "" while it is connected
  bool ended = false;  // it sends nothing more: closing its line isn't a loss

  /// Its launcher has ended unexpectedly; a network that failed, or a silent machine, may return.
  bool is_gone() const { return !lost.empty() && line.closed_by_peer(); }
};

/// A machine was lost before any rank was started.
class LostBeforeStart : public PeerError {
 public:
  explicit LostBeforeStart(const Machine& machine)
      : PeerError("{} was lost before the ranks were started: {}", machine.name, machine.lost) {}
};

/// Where machines connect during an attempt: see Note [Attempts].
class Door {
 public:
  virtual ~Door() = default;
  virtual void add_events(std::vector<pollfd>& events) const = 0;
  virtual void serve() = 0;
  virtual Clock::time_point next_deadline() const = 0;
  /// The machines that wait to join, once the run can continue with more machines than it has; else "".
  virtual std::string newcomers() const = 0;
  /// Why this machine leads no longer; "" while it does.
  virtual std::string superseded() const = 0;
  /// Machines of the last attempt may connect again.
  virtual void attempt_has_ended() = 0;
};

/// The connections to the other machines, served without blocking. A machine that closes its line, sends an invalid
/// seal or is silent for too long is lost. The door, if any, is served together with them.
class Machines {
 public:
  /// For a run on one machine.
  Machines() = default;
  Machines(std::vector<Machine> others, std::string own_address, std::chrono::milliseconds silence,
           Door* door = nullptr)
      : others_(std::move(others)), own_address_(std::move(own_address)), silence_(silence), door_(door) {}

  std::vector<Machine>& others() { return others_; }
  Machine& numbered(int machine);
  /// Where ranks of other machines reach this machine's ranks; "" on one machine.
  const std::string& own_address() const { return own_address_; }

  void add_events(std::vector<pollfd>& events) const;
  /// Fills the inboxes, flushes unsent messages, sends pings when due, and notes lost machines.
  void serve();
  std::optional<Clock::time_point> next_deadline() const;
  /// See Door.
  std::string newcomers() const { return door_ != nullptr ? door_->newcomers() : ""; }
  std::string superseded() const { return door_ != nullptr ? door_->superseded() : ""; }

  void send(int machine, const LinkMessage& message) { numbered(machine).line.send(message); }
  void send_all(const LinkMessage& message);
  /// The attempt has ended: sends `last` to all, and waits briefly until they have read it and hung up.
  void part(const LinkMessage& last);

 private:
  void read(Machine& machine) const;

  std::vector<Machine> others_;
  std::string own_address_;
  std::chrono::milliseconds silence_{0};
  Door* door_ = nullptr;
  Clock::time_point next_ping_ = Clock::now();
};

/// Waits briefly until the other ends have read everything and hung up: closing a socket with unread bytes in it
/// discards what it has sent.
void hang_up(const std::vector<MachineLine*>& lines);

}  // namespace trainer::launch
