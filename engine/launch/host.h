// Machine 0, waiting for the others.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/launch/address.h"
#include "engine/launch/meeting.h"

namespace trainer::launch {

class Host {
 public:
  Host(const Appointment& appointment, const Introduction& own, SignalQueue& signals)
      : appointment_(appointment), own_(own), signals_(signals) {}

  /// See meet().
  Machines gather();

 private:
  /// Whoever has connected: a machine once it has introduced itself.
  struct Visitor {
    MachineLine line;
    Address from;
    Clock::time_point heard = Clock::now();
    bool greeted = false;
    bool refused = false;
    std::optional<Introduction> who{};

    std::string name() const;
  };

  void listen();
  void wait();
  void accept_visitors();
  void hear(Visitor& visitor);
  void greet(Visitor& visitor, const LinkMessage& hello);
  void admit(Visitor& visitor, Introduction who);
  void refuse(Visitor& visitor, int code, const std::string& why);
  void ping();
  void dismiss();
  void check_settings();
  [[noreturn]] void call_off(int code, const std::string& why);

  std::vector<int> missing() const;
  void say_who_is_missing() const;
  Visitor* numbered(int machine);

  const Appointment& appointment_;
  const Introduction& own_;
  SignalQueue& signals_;
  std::vector<FileDescriptor> listeners_;
  std::vector<Visitor> visitors_;
  Clock::time_point next_ping_ = Clock::now();
  int strangers_ = 0;
};

}  // namespace trainer::launch
