#include "engine/launch/follower.h"

#include "engine/base/errors.h"
#include "engine/launch/meeting_key.h"
#include "engine/launch/screen.h"
#include "engine/launch/secret.h"

namespace trainer::launch {
namespace {

constexpr int kConnectPatience = 2000;                      // milliseconds, of one try
constexpr std::chrono::milliseconds kAnswerPatience{5000};  // for a leader that has accepted the connection
constexpr std::chrono::milliseconds kRetryEvery{250};       // between tries
constexpr std::chrono::seconds kFirstReminder{5};

}  // namespace

std::optional<Follower::Joined> Follower::join(const Alternatives& alternatives) {
  if (appointment_.key.empty() && !appointment_.wants_no_secret)
    refuse_open_address(appointment_.host, appointment_.port);
  const std::string where = endpoint_text(appointment_.host, appointment_.port);
  const double seconds = std::chrono::duration<double>(appointment_.patience).count();
  const auto leader = alternatives.place();
  if (leader && may_connect_to(*leader))
    say("trainer: machine {} of {}: looking for machine {}, which leads the run, at {} (for at most {:g} s)\n",
        own_.machine, own_.machines, leader->machine, endpoint_text(leader->host, leader->port), seconds);
  else
    say("trainer: machine {} of {}: looking for machine 0 at {} (for at most {:g} s)\n", own_.machine, own_.machines,
        where, seconds);
  const Clock::time_point end = Clock::now() + appointment_.patience;
  Clock::time_point reminder = Clock::now() + kFirstReminder;
  std::string why;
  bool is_unproven = false, is_new = false;
  do {
    try {
      return try_all(alternatives);
    } catch (const NotYet& not_yet) {
      is_unproven = not_yet.unproven;
      is_new = is_unproven && why != not_yet.why;  // to be reported at once: waiting alone may not help
      why = not_yet.why;
    }
    if (is_new || Clock::now() >= reminder) {
      say("trainer: machine {} of {}: still looking for machine 0, for {:.0f} s more: {}\n", own_.machine,
          own_.machines, std::chrono::duration<double>(end - Clock::now()).count(), why);
      reminder = Clock::now() + kReminderEvery;
    }
    pause(kRetryEvery, signals_);
  } while (Clock::now() < end);
  const std::string advice =
      is_unproven ? ""
                  : fmt::format("\n  is it running there, with --node_rank 0 and the same --master_addr and --master_port? "
                                "does a firewall block port {}?",
                                appointment_.port);
  throw PeerError("machine 0 was not reached at {} within {:g} s: {}{}", where, seconds, why, advice);
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
  if (place.machine == own_.machine || (place.host == appointment_.host && place.port == appointment_.port)) return false;
  return !appointment_.key.empty() || appointment_.wants_no_secret || open_address(place.host, place.port).empty();
}

/// Null: this machine leads. Errors: NotYet, of the appointed address.
std::optional<Follower::Joined> Follower::try_all(const Alternatives& alternatives) {
  try {
    return try_once(appointed());
  } catch (const NotYet&) {
    if (const auto place = alternatives.place(); place && may_connect_to(*place)) {
      try {
        return try_once(*place);
      } catch (const NotYet&) {  // it is lost too, or not ready
      }
    }
    if (alternatives.takes_over()) return std::nullopt;
    throw;
  }
}

Follower::Joined Follower::try_once(const LeaderPlace& place) {
  auto [line, host_address, for_ranks, epoch] = greet(place);
  const std::string there = host_address.text();
  line.send(to_message(own_));
  const LinkMessage welcome =
      answer(line, fmt::format("machine 0 at {} has a different secret{}\n  set the same TRAINER_SECRET on every "
                               "machine",
                               there, appointment_.key.empty() ? "; this machine has none" : ""));
  if (epoch != 0 && epoch < own_.epoch)
    throw NotYet{fmt::format("the leader at {} is of leader epoch {}, but epoch {} has begun since: it was paused or cut "
                             "off, and succeeded",
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

/// Connects to the first address of the leader that answers.
FileDescriptor Follower::connect(const LeaderPlace& place) {
  std::string why;
  try {
    for (const Address& address : resolve(place.host, place.port)) {
      try {
        FileDescriptor socket = connect_to(address, kConnectPatience);
        watch_over(socket);
        return socket;
      } catch (const PeerError& error) {
        why = error.what();
      }
    }
  } catch (const PeerError& error) {
    why = error.what();
  }
  throw NotYet{why};
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
    wait_for({{line.fd(), POLLIN, 0}}, end, signals_);
  }
}

}  // namespace trainer::launch
