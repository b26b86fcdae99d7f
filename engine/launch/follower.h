// A follower: a machine that connects to machine 0.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "engine/launch/address.h"
#include "engine/launch/meeting.h"
#include "engine/launch/succession.h"

namespace trainer::launch {

class Follower {
 public:
  Follower(const Appointment& appointment, const Introduction& own, SignalQueue& signals)
      : appointment_(appointment), own_(own), signals_(signals) {}

  struct Joined {
    Machines machines;
    bool waits = false;  // for the next generation
    int64_t epoch = 0;   // the leader's: Note [Leader epochs]
  };
  /// Where else to look for a leader, in this order, and whether to lead instead: see Note [Succession].
  struct Alternatives {
    std::function<std::vector<LeaderPlace>()> places = [] { return std::vector<LeaderPlace>(); };
    std::function<bool()> takes_over = [] { return false; };
    std::function<Door*()> door = [] { return nullptr; };  // where others vote for this machine; null: they don't
    std::function<std::string()> why_nobody_leads = [] { return ""; };
  };
  /// Retries connecting to machine 0, or to the leader in its place, until it answers, and reports on standard error
  /// what it waits for. Null when this machine has taken over.
  /// Only an answer that proves that it knows the secret ends the search: any program may listen at that address. A
  /// leader of an older epoch than this machine has followed doesn't count either.
  /// Errors: PeerError when machine 0 doesn't answer in time or rejects this machine; ConfigError
  /// when the run has no secret and machine 0's address is open; StoppedBeforeStart.
  std::optional<Joined> join(const Alternatives& alternatives);
  /// Tells machine 0 that this machine ends with `code` before it has joined. Gives up after `patience`.
  void report(int code, const std::string& why, std::chrono::milliseconds patience);

 private:
  /// Nothing listens or answers yet, or what answers can't prove that it knows the secret: another try may succeed.
  struct NotYet {
    std::string why;  // never what the other end has sent
    bool unproven = false;
  };
  /// A connection whose messages carry seals.
  struct Greeted {
    MachineLine line;
    Address leader;
    std::string for_ranks;  // the address at which other machines' ranks reach this machine's
    int64_t epoch = 0;      // as the leader claims
  };

  Greeted greet(const LeaderPlace& place);
  void wait(std::vector<pollfd> events, Clock::time_point until);
  Joined try_once(const LeaderPlace& place);
  std::optional<Joined> try_all();
  FileDescriptor connect(const LeaderPlace& place);
  LeaderPlace appointed() const { return {.host = appointment_.host, .port = appointment_.port}; }
  bool may_connect_to(const LeaderPlace& place) const;
  LinkMessage answer(MachineLine& line, const std::string& unproven);

  const Appointment& appointment_;
  const Introduction& own_;
  SignalQueue& signals_;
  Alternatives alternatives_{};
};

}  // namespace trainer::launch
