// The other machines of a run.
//
// Note [Several machines]
// Machine 0 is the host, the others are its guests; a guest talks to the host only. All that the ranks of a guest ask
// of the store goes through their own supervisor to the host's, sealed with a key that follows from the run's secret
// and from nonces of both ends. The meeting (meeting.h) ends when every machine is there and all agree on what is run.
// The host decides how a run ends: it hears of every failure, and tells all machines one outcome.
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

/// Another machine, and what it has said.
struct Machine {
  int number = 0;
  std::string name;  // "machine 1 (node-b, 10.0.0.2)"
  MachineLine line;
  Clock::time_point heard = Clock::now();
  std::deque<LinkMessage> inbox{};
  std::string lost{};  // why it is no longer there
  bool ended = false;  // it has no more to say: an end of its line is no loss
};

/// A machine was lost while nothing ran yet.
class LostBeforeStart : public PeerError {
 public:
  explicit LostBeforeStart(const Machine& machine)
      : PeerError("{} was lost before the ranks were started: {}", machine.name, machine.lost) {}
};

/// Where machines come while a life runs: see [Note Lives].
class Door {
 public:
  virtual ~Door() = default;
  virtual void add_events(std::vector<pollfd>& events) const = 0;
  virtual void serve() = 0;
  virtual Clock::time_point next_deadline() const = 0;
  /// Who has come, once the run can go on with more machines than it has; else "".
  virtual std::string newcomers() const = 0;
  /// Those who took part may come back.
  virtual void life_has_ended() = 0;
};

/// The lines to them, served without ever waiting. A machine that closes its line, breaks a seal or is silent for too
/// long is lost. Where the run has a door, it is served beside them.
class Machines {
 public:
  /// A machine that is alone.
  Machines() = default;
  Machines(std::vector<Machine> others, std::string own_address, std::chrono::milliseconds silence,
           Door* door = nullptr)
      : others_(std::move(others)), own_address_(std::move(own_address)), silence_(silence), door_(door) {}

  std::vector<Machine>& others() { return others_; }
  Machine& numbered(int machine);
  /// Where ranks of other machines reach this one's; "" when it is alone.
  const std::string& own_address() const { return own_address_; }

  void add_events(std::vector<pollfd>& events) const;
  /// Fills the inboxes, sends what is waiting and a sign of life when it is time, and notes who is lost.
  void serve();
  std::optional<Clock::time_point> next_deadline() const;
  /// See Door.
  std::string newcomers() const { return door_ != nullptr ? door_->newcomers() : ""; }

  void send(int machine, const LinkMessage& message) { numbered(machine).line.send(message); }
  void send_all(const LinkMessage& message);
  /// The life has ended: sends `last` to all, and waits until they have read it and hung up, but not long.
  void part(const LinkMessage& last);

 private:
  void read(Machine& machine) const;

  std::vector<Machine> others_;
  std::string own_address_;
  std::chrono::milliseconds silence_{0};
  Door* door_ = nullptr;
  Clock::time_point next_ping_ = Clock::now();
};

/// Waits until the other ends have read all that was sent and hung up, but not long: a line that is closed with unread
/// bytes in it takes back what it has sent.
void hang_up(const std::vector<MachineLine*>& lines);

}  // namespace trainer::launch
