// Machine 0, waiting for the others.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/launch/address.h"
#include "engine/launch/meeting.h"
#include "engine/launch/terms.h"

namespace trainer::launch {

/// Where the number of machines is a range, it is also the door of the lives: whoever comes while one runs is held
/// until the next. Once the first one has begun, nobody who comes can end the run: who may not join is sent away.
class Host : public Door {
 public:
  Host(const Appointment& appointment, const Introduction& own, SignalQueue& signals);

  struct Gathered {
    Machines machines;
    Terms terms;
  };
  /// Listens on the appointed address until all machines are there and have proved that they know the secret, or enough
  /// are and the last call is over; then tells each of them `terms`, completed with who takes part. Who waits for whom
  /// is said on standard error. Errors: PeerError when too few come in time, and, in the first meeting, when one has
  /// another secret or another build; ConfigError, there, with all differences of their configurations, on every
  /// machine; MachineError when nothing can listen there.
  Gathered gather(Terms terms);
  /// The run has ended like this: so it has for who waits.
  void send_home(const LinkMessage& last);

  void add_events(std::vector<pollfd>& events) const override;
  void serve() override;
  Clock::time_point next_deadline() const override { return next_ping_; }
  std::string newcomers() const override;
  void life_has_ended() override { phase_ = Phase::kBetween; }

 private:
  /// Whoever has connected: a machine once it has introduced itself.
  struct Visitor {
    MachineLine line;
    Address from;
    Clock::time_point heard = Clock::now();
    bool greeted = false;
    bool refused = false;
    bool prepared = false;  // to take part at once
    std::optional<Introduction> who{};

    std::string name() const;
  };
  enum class Phase { kFirstMeeting, kMeeting, kLife, kBetween };

  void listen();
  void wait(Clock::time_point until);
  void accept_visitors();
  void hear(Visitor& visitor);
  void greet(Visitor& visitor, const LinkMessage& hello);
  void admit(Visitor& visitor, Introduction who);
  void welcome(Visitor& visitor);
  void doubt(Visitor& visitor, const std::string& why);
  void refuse(Visitor& visitor, int code, const std::string& why);
  void send_away(Visitor& visitor, int code, const std::string& why, bool ends_meeting = true);
  void ping();
  void dismiss();
  void check_settings();
  [[noreturn]] void call_off(int code, const std::string& why);
  [[noreturn]] void give_up();
  bool is_complete();
  Gathered take_along(Terms terms);

  bool is_elastic() const { return appointment_.sizes.size() > 1; }
  /// With how many of `machines` the run can go on; 0: it can't.
  int size_of(int machines) const;
  std::vector<int> here() const;
  std::vector<int> missing() const;
  void say_who_is_missing() const;
  Visitor* numbered(int machine);

  const Appointment& appointment_;
  const Introduction& own_;
  SignalQueue& signals_;
  Phase phase_ = Phase::kFirstMeeting;
  std::vector<FileDescriptor> listeners_;
  std::vector<Visitor> visitors_;
  std::set<int> in_life_;   // guests that take part, or took part in the last one
  std::set<int> expected_;  // guests for which the meeting waits
  std::optional<Clock::time_point> last_call_;
  Clock::time_point next_ping_ = Clock::now();
  int strangers_ = 0;
};

}  // namespace trainer::launch
