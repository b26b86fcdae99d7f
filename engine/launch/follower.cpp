#include "engine/launch/follower.h"

#include <algorithm>

#include "engine/base/errors.h"
#include "engine/launch/meeting_key.h"
#include "engine/launch/screen.h"
#include "engine/launch/secret.h"

namespace trainer::launch {
namespace {

constexpr std::chrono::milliseconds kAnswerPatience{5000};  // for a leader that has accepted the connection
constexpr std::chrono::milliseconds kRetryEvery{250};       // between tries
constexpr std::chrono::seconds kFirstReminder{5};

}  // namespace

std::optional<Follower::Joined> Follower::join(const Alternatives& alternatives) {
  if (appointment_.key.empty() && !appointment_.wants_no_secret)
    refuse_open_address(appointment_.host, appointment_.port);
  const std::string where = endpoint_text(appointment_.host, appointment_.port);
  const double seconds = std::chrono::duration<double>(appointment_.patience).count();
  alternatives_ = alternatives;
  const std::vector<LeaderPlace> leaders = alternatives_.places();
  if (!leaders.empty() && may_connect_to(leaders.front()))
    say("trainer: machine {} of {}: looking for machine {}, which leads the run, at {} (for at most {:g} s)\n",
        own_.machine, own_.machines, leaders.front().machine, endpoint_text(leaders.front().host, leaders.front().port),
        seconds);
  else
    say("trainer: machine {} of {}: looking for machine 0 at {} (for at most {:g} s)\n", own_.machine, own_.machines,
        where, seconds);
  const Clock::time_point end = Clock::now() + appointment_.patience;
  Clock::time_point reminder = Clock::now() + kFirstReminder;
  std::string why;
  bool is_unproven = false, is_new = false;
  do {
    try {
      return try_all();
    } catch (const NotYet& not_yet) {
      is_unproven = not_yet.unproven;
      is_new = is_unproven && why != not_yet.why;  // to be reported at once: waiting alone may not help
      why = not_yet.why;
    }
    if (is_new || Clock::now() >= reminder) {
      const std::string nobody = alternatives_.why_nobody_leads();
      say("trainer: machine {} of {}: still looking for machine 0, for {:.0f} s more: {}{}\n", own_.machine,
          own_.machines, std::chrono::duration<double>(end - Clock::now()).count(), why,
          nobody.empty() ? "" : "\n  no machine leads in its place: " + nobody);
      reminder = Clock::now() + kReminderEvery;
    }
    for (const Clock::time_point next = Clock::now() + kRetryEvery; Clock::now() < next;) wait({}, next);
  } while (Clock::now() < end);
  const std::string advice =
      is_unproven ? ""
                  : fmt::format(
                        "\n  is it running there, with --node_rank 0 and the same --master_addr and --master_port? "
                        "does a firewall block port {}?",
                        appointment_.port);
  const std::string nobody = alternatives_.why_nobody_leads();
  throw PeerError("machine 0 was not reached at {} within {:g} s: {}{}{}", where, seconds, why, advice,
                  nobody.empty() ? "" : "\n  no machine leads in its place: " + nobody + kAdviceWithoutMajority);
}

void Follower::report(int code, const std::string& why, std::chrono::milliseconds patience) {
  for (const Clock::time_point end = Clock::now() + patience; Clock::now() < end;) {
    try {
      Greeted greeted = greet(appointed());
      greeted.line.send({.op = LinkOp::kEnd, .code = code, .number = own_.machine, .strings = {why, own_.job}});
      return hang_up({&greeted.line});
    } catch (const NotYet&) {
      pause(kRetryEvery, signals_);
    }
  }
}

/// Connects, and exchanges the nonces of the seals.
Follower::Greeted Follower::greet(const LeaderPlace& place) {
  MachineLine line(connect(place));
  // Read the address now: the leader may hang up at any time.
  const Address host_address = [&] {
    try {
      return other_address(line.fd());
    } catch (const PeerError& error) {
      throw NotYet{error.what()};
    }
  }();
  const std::string there = host_address.text(), for_ranks = address_for_ranks(line.fd()).host();
  const std::string nonce = random_bytes(kNonceBytes);
  line.send({.op = LinkOp::kHello, .strings = {kProtocol, nonce}});
  const std::string stranger =
      fmt::format("the program at {} is not machine 0 of a run, or is another version of trainer", there);
  const LinkMessage challenge = answer(line, stranger);
  if (challenge.op != LinkOp::kChallenge || challenge.strings.size() != 2 || challenge.strings[0] != kProtocol ||
      challenge.strings[1].size() != kNonceBytes)
    throw NotYet{stranger, true};
  Seals seals = make_seals(appointment_.key, nonce, challenge.strings[1], challenge.number);
  line.seal(std::move(seals.by_follower), std::move(seals.by_leader));
  if (!appointment_.key.empty()) line.encrypt();
  return {std::move(line), host_address, for_ranks, challenge.number};
}

/// Without a secret, only a loopback address, unless the user allows any.
bool Follower::may_connect_to(const LeaderPlace& place) const {
  if (place.machine == own_.machine || (place.host == appointment_.host && place.port == appointment_.port))
    return false;
  return !appointment_.key.empty() || appointment_.wants_no_secret || open_address(place.host, place.port).empty();
}

/// Null: this machine leads. Errors: NotYet, of the appointed address.
std::optional<Follower::Joined> Follower::try_all() {
  NotYet first{"it is this machine's own address"};
  if (own_.machine != 0 || alternatives_.door() == nullptr) {
    try {
      return try_once(appointed());
    } catch (const NotYet& not_yet) {
      first = not_yet;
    }
  }
  for (const LeaderPlace& place : alternatives_.places()) {
    if (!may_connect_to(place)) continue;
    wait({}, Clock::now());
    try {
      return try_once(place);
    } catch (const NotYet&) {  // it is lost too, or not ready
    }
  }
  if (alternatives_.takes_over()) return std::nullopt;
  throw first;
}

/// Serves the door meanwhile, so that two machines that look for each other both get answers.
void Follower::wait(std::vector<pollfd> events, Clock::time_point until) {
  Door* const door = alternatives_.door();
  if (door != nullptr) door->add_events(events);
  wait_for(std::move(events), door != nullptr ? std::min(until, door->next_deadline()) : until, signals_);
  if (door != nullptr) door->serve();
}

Follower::Joined Follower::try_once(const LeaderPlace& place) {
  auto [line, host_address, for_ranks, epoch] = greet(place);
  const std::string there = host_address.text();
  line.send(to_message(own_));
  const LinkMessage welcome = answer(
      line, fmt::format("machine 0 at {} has a different secret{}\n  set the same TRAINER_SECRET on every machine",
                        there, appointment_.key.empty() ? "; this machine has none" : ""));
  if (epoch != 0 && epoch < own_.epoch)
    throw NotYet{fmt::format("the leader at {} is of leader epoch {}, but epoch {} has begun since: it was paused "
                             "or cut off, and succeeded",
                             there, epoch, own_.epoch),
                 true};
  if (welcome.op == LinkOp::kEnd) throw_ending(welcome);
  if (welcome.op != LinkOp::kWelcome || welcome.strings.size() != 1)
    throw PeerError("machine 0 at {} broke the protocol", there);
  line.trust();
  Machine host{.number = 0,
               .name = fmt::format("machine {} ({}, {})", welcome.number, welcome.strings[0], host_address.host()),
               .line = std::move(line)};
  Joined joined;
  joined.waits = welcome.code == 1;
  joined.epoch = epoch;
  say("trainer: machine {} of {}: connected to {}{}\n", own_.machine, own_.machines, host.name,
      joined.waits ? "; the run is in progress: this machine joins its next generation" : "");
  std::vector<Machine> others;
  others.push_back(std::move(host));
  joined.machines = Machines(std::move(others), for_ranks, appointment_.silence);
  return joined;
}

FileDescriptor Follower::connect(const LeaderPlace& place) try {
  return connect_to_host(place.host, place.port);
} catch (const PeerError& error) {
  throw NotYet{error.what()};
}

/// `unproven`: the reason to report when the other end sends anything that isn't a message with a valid seal.
LinkMessage Follower::answer(MachineLine& line, const std::string& unproven) {
  const Clock::time_point end = Clock::now() + kAnswerPatience;
  for (;;) {
    line.flush();
    try {
      if (auto message = line.next()) return std::move(*message);
    } catch (const PeerError&) {
      throw NotYet{unproven, true};
    }
    if (!line.is_open()) throw NotYet{line.why_closed()};
    if (Clock::now() >= end) throw NotYet{"it accepts the connection, but does not answer"};
    wait({{line.fd(), POLLIN, 0}}, end);
  }
}

}  // namespace trainer::launch
