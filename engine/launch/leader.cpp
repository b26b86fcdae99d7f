#include "engine/launch/leader.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fmt/ranges.h>

#include "engine/base/errors.h"
#include "engine/base/hex.h"
#include "engine/config/machine/started_rank.h"
#include "engine/launch/meeting_key.h"
#include "engine/launch/messages.h"
#include "engine/launch/screen.h"
#include "engine/launch/secret.h"

namespace trainer::launch {
namespace {

constexpr std::chrono::seconds kGreetingPatience{5};  // for a visitor to introduce itself, or to read its refusal
constexpr int kMostStrangersNamed = 5;

std::string listed(const std::vector<int>& machines) {
  constexpr std::size_t kMost = 16;
  const std::vector<int> first(machines.begin(), machines.begin() + std::min(machines.size(), kMost));
  return fmt::format("machine{} {}{}", machines.size() == 1 ? "" : "s", fmt::join(first, ", "),
                     machines.size() > kMost ? ", …" : "");
}

double seconds(std::chrono::milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

std::string new_attempt_id() {
  return hex(random_bytes(4));
}

/// Called once the name of this machine is known, before any connection is accepted.
void check_openness(const Appointment& appointment) {
  if (!appointment.key.empty()) return;
  if (!appointment.wants_no_secret) refuse_open_address(appointment.host, appointment.port);
  if (const std::string open = open_address(appointment.host, appointment.port); !open.empty())
    say("trainer: warning: this run has no secret (TRAINER_SECRET_FILE=none): anyone who can reach {} may join it\n",
        open);
}

}  // namespace

Leader::Leader(const Appointment& appointment, const Introduction& own, SignalQueue& signals)
    : appointment_(appointment), own_(own), signals_(signals), admissions_(appointment.rejoin) {
  for (int machine = 0; machine < own.machines; ++machine)
    if (is_follower(machine)) expected_.insert(machine);
}

void Leader::succeed() {
  listen();
  phase_ = Phase::kBetween;
}

Leader::Gathered Leader::gather(Terms terms) {
  if (phase_ != Phase::kFirstMeeting) phase_ = Phase::kMeeting;
  if (!entrance_.is_open()) listen_soon();
  if (phase_ == Phase::kFirstMeeting) check_openness(appointment_);
  last_call_.reset();
  if (!is_complete() && !last_call_) say_who_is_missing();
  const Clock::time_point end = Clock::now() + appointment_.patience;
  Clock::time_point reminder = Clock::now() + kReminderEvery;
  while (!is_complete()) {
    try {
      wait(last_call_.value_or(end));
    } catch (const StoppedBeforeStart& stopped) {
      call_off(128 + stopped.signal, "");
    }
    serve();
    const Clock::time_point now = Clock::now();
    if (now >= reminder) say_who_is_missing();
    if (now >= reminder) reminder = now + kReminderEvery;
    if (now >= end && !is_complete()) give_up();
  }
  check_settings();
  return take_along(std::move(terms));
}

/// All expected machines are connected, or enough of them are and the last call is over.
bool Leader::is_complete() {
  const std::vector<int> followers = here();
  if (size_of(static_cast<int>(followers.size()) + 1) == 0) {
    last_call_.reset();
    return false;
  }
  if (std::includes(followers.begin(), followers.end(), expected_.begin(), expected_.end())) return true;
  if (last_call_) return Clock::now() >= *last_call_;
  last_call_ = Clock::now() + appointment_.last_call;
  say("trainer: {} of {} machines {} enough: others may join at {} within {:g} s\n", followers.size() + 1,
      own_.machines, followers.empty() ? "is" : "are", endpoint_text(appointment_.host, appointment_.port),
      seconds(appointment_.last_call));
  return appointment_.last_call.count() == 0;
}

Leader::Gathered Leader::take_along(Terms terms) {
  const std::vector<int> followers = here();
  terms.machines = size_of(static_cast<int>(followers.size()) + 1);
  terms.attempt_id = new_attempt_id();
  const std::set<int> before = std::exchange(in_attempt_, {});
  std::vector<Machine> others;
  std::string own_address;
  for (const int number : followers) {
    Visitor& visitor = *numbered(number);
    visitor.prepared = true;  // nothing waits for its preparation any more
    if (terms.machine + 1 >= terms.machines) {
      say("trainer: {} waits for a later generation: the run cannot continue with this many machines\n",
          visitor.name());
      continue;
    }
    ++terms.machine;
    if (own_address.empty()) own_address = address_for_ranks(visitor.line.fd()).host();
    visitor.line.send(to_message(terms));
    others.push_back({.number = terms.machine, .name = visitor.name(), .line = std::move(visitor.line)});
    in_attempt_.insert(number);
    if (!before.contains(number)) admissions_.note(number, Clock::now());
  }
  std::erase_if(visitors_,
                [&](const Visitor& visitor) { return visitor.who && in_attempt_.contains(visitor.who->machine); });
  expected_ = in_attempt_;
  terms.machine = 0;
  phase_ = Phase::kAttempt;
  return {Machines(std::move(others), own_address, appointment_.silence, this), std::move(terms)};
}

void Leader::dismiss_all(const LinkMessage& last) {
  std::vector<MachineLine*> lines;
  for (Visitor& visitor : visitors_) {
    if (!visitor.who) continue;
    visitor.line.send(last);
    lines.push_back(&visitor.line);
  }
  hang_up(lines);
  visitors_.clear();
  entrance_.close();
}

void Leader::serve() {
  entrance_.let_in(visitors_);
  for (Visitor& visitor : visitors_) hear(visitor);
  ping();
  dismiss();
}

std::string Leader::newcomers() const {
  std::set<int> machines = in_attempt_;
  std::string names;
  for (const Visitor& visitor : visitors_) {
    if (!visitor.who || !visitor.prepared || is_too_early(visitor)) continue;
    if (!machines.insert(visitor.who->machine).second) continue;
    names += (names.empty() ? "" : " and ") + visitor.name();
  }
  const int now = static_cast<int>(in_attempt_.size()) + 1, then = size_of(static_cast<int>(machines.size()) + 1);
  return then > now ? names : "";
}

bool Leader::is_too_early(const Visitor& visitor) const {
  const Clock::time_point now = Clock::now();
  return now - visitor.came < admissions_.wait_of(visitor.who->machine, now);
}

int Leader::size_of(int machines) const {
  int most = 0;
  for (const int size : appointment_.sizes)
    if (size <= machines) most = size;
  return most;
}

void Leader::give_up() {
  const int least = appointment_.sizes.front();
  call_off(kPeerFailure,
           fmt::format("{} of {} did not connect to {} within {:g} s{}\n  start {} with --node_rank and the same "
                       "--master_addr and --master_port; a firewall must let port {} through",
                       listed(missing()), own_.machines, endpoint_text(appointment_.host, appointment_.port),
                       seconds(appointment_.patience),
                       appointment_.is_elastic() ? fmt::format(", and the run needs at least {} machines", least) : "",
                       missing().size() == 1 ? "it" : "them", appointment_.port));
}

/// Kubernetes may publish the name of a machine only after its container has started.
void Leader::listen_soon() {
  constexpr std::chrono::seconds kNamePatience{60};
  constexpr std::chrono::milliseconds kNextTry{250};
  const bool may_come = !config::environment_value("KUBERNETES_SERVICE_HOST").empty();
  const Clock::time_point end =
      Clock::now() + std::min<std::chrono::milliseconds>(kNamePatience, appointment_.patience);
  for (;;) {
    try {
      return listen();
    } catch (const PeerError&) {
      if (!may_come || Clock::now() >= end) throw;
    }
    pause(kNextTry, signals_);
  }
}

void Leader::listen() {
  std::string why;
  for (const Address& address : resolve(appointment_.host, appointment_.port)) {
    try {
      entrance_.add(listen_on(address));
    } catch (const MachineError& error) {
      why = error.what();
    }
  }
  if (!entrance_.is_open()) throw MachineError("{}", why);
}

void Leader::add_events(std::vector<pollfd>& events) const {
  entrance_.add_events(events);
  for (const Visitor& visitor : visitors_) {
    if (!visitor.line.is_open()) continue;
    const bool writes = visitor.line.has_unsent();
    events.push_back({visitor.line.fd(), static_cast<short>(writes ? POLLIN | POLLOUT : POLLIN), 0});
  }
}

void Leader::wait(Clock::time_point until) {
  std::vector<pollfd> events;
  add_events(events);
  wait_for(std::move(events), std::min(until, next_ping_), signals_);
}

void Leader::hear(Visitor& visitor) {
  try {
    visitor.line.flush();
    while (auto message = visitor.line.next()) {
      visitor.heard = Clock::now();
      visitor.prepared |= visitor.who && message->op == LinkOp::kPrepared;
      if (visitor.refused || visitor.who) continue;  // only keeps the connection alive
      if (visitor.greeted && message->op == LinkOp::kEnd) {
        hear_end(visitor, *message);
      } else if (visitor.greeted) {
        admit(visitor, introduction_of(*message));
      } else {
        greet(visitor, *message);
      }
    }
  } catch (const PeerError& error) {
    doubt(visitor, error.what());
  }
}

/// The visitor broke the protocol: a stranger, or a machine with a different secret.
void Leader::doubt(Visitor& visitor, const std::string& why) {
  if (visitor.greeted && !visitor.who && !visitor.refused)
    return send_away(visitor, kPeerFailure,
                     fmt::format("{} has a different secret than machine 0\n  set the same TRAINER_SECRET on every "
                                 "machine",
                                 visitor.from.host()),
                     false);
  if (!visitor.greeted && ++strangers_ <= kMostStrangersNamed)
    say("trainer: {} connected but is not a machine of this run: {}\n", visitor.from.text(), why);
  visitor.line.close();
}

void Leader::greet(Visitor& visitor, const LinkMessage& hello) {
  if (hello.op != LinkOp::kHello || hello.strings.size() != 2 || hello.strings[1].size() != kNonceBytes)
    throw PeerError("no greeting");
  if (hello.strings[0] != kProtocol)
    return send_away(visitor, kPeerFailure,
                     fmt::format("{} runs another version of trainer than machine 0: install the same on every machine",
                                 visitor.from.host()),
                     false);
  const std::string nonce = random_bytes(kNonceBytes);
  visitor.line.send({.op = LinkOp::kChallenge, .strings = {kProtocol, nonce}});
  Seals seals = make_seals(appointment_.key, hello.strings[1], nonce);
  visitor.line.seal(std::move(seals.by_leader), std::move(seals.by_follower));
  visitor.greeted = true;
}

/// A machine that could not start reports why, instead of introducing itself.
void Leader::hear_end(Visitor& visitor, const LinkMessage& end) {
  visitor.refused = true;
  visitor.line.end();
  if (end.strings.size() != 2 || end.strings[1] != own_.job) return;
  told_.insert(static_cast<int>(end.number));
  if (phase_ == Phase::kFirstMeeting && !farewell_)
    call_off(std::clamp(end.code, 1, 255),
             fmt::format("machine {} ({}) could not start: {}", end.number, visitor.from.host(), end.strings[0]));
}

void Leader::turn_away(int code, const std::string& why, std::chrono::milliseconds patience) {
  farewell_ = LinkMessage{
      .op = LinkOp::kEnd, .code = code, .strings = {fmt::format("machine 0 ({}) could not start: {}", own_.name, why)}};
  listen();
  for (const Clock::time_point end = Clock::now() + patience;
       Clock::now() < end && std::ssize(told_) < own_.machines - 1;) {
    wait(end);
    serve();
  }
  std::vector<MachineLine*> lines;
  for (Visitor& visitor : visitors_) lines.push_back(&visitor.line);
  hang_up(lines);
}

void Leader::admit(Visitor& visitor, Introduction who) {
  const Visitor* const same = numbered(who.machine);
  visitor.who = std::move(who);
  if (!visitor.who->job.empty() && !own_.job.empty() && visitor.who->job != own_.job)
    return send_away(
        visitor, kPeerFailure,
        fmt::format("two jobs meet at {}: {} has {}, and machine 0 has {}\n  set another "
                    "main_process_port (MASTER_PORT) for one of them",
                    endpoint_text(appointment_.host, appointment_.port), visitor.name(), visitor.who->job, own_.job),
        false);
  if (farewell_) {
    told_.insert(visitor.who->machine);
    return refuse(visitor, farewell_->code, farewell_->strings.front());
  }
  if (visitor.who->machines != own_.machines || !is_follower(visitor.who->machine))
    return send_away(
        visitor, kUsageFailure,
        fmt::format("{} says it is machine {} of {}, but this run has {}\n  give every machine the same --nnodes "
                    "(--num_machines), and a --node_rank below it",
                    visitor.from.host(), visitor.who->machine, visitor.who->machines, own_.machines));
  if (same != nullptr)
    return send_away(visitor, kPeerFailure,
                     fmt::format("{} is already connected: every machine needs its own --node_rank", same->name()),
                     false);
  if (phase_ != Phase::kFirstMeeting)
    if (const auto lines = differences(own_, *visitor.who); !lines.empty())
      return send_away(visitor, visitor.who->build != own_.build ? kPeerFailure : kUsageFailure,
                       fmt::format("{} differs from machine 0:\n  {}", visitor.name(), fmt::join(lines, "\n  ")));
  welcome(visitor);
}

void Leader::welcome(Visitor& visitor) {
  const bool waits = phase_ == Phase::kAttempt;
  visitor.line.trust();
  visitor.line.send({.op = LinkOp::kWelcome, .code = waits ? 1 : 0, .number = own_.machine, .strings = {own_.name}});
  if (waits && in_attempt_.contains(visitor.who->machine))
    return say("trainer: {} connected, but a machine with its number is training: it waits for the next generation\n",
               visitor.name());
  if (const std::string clock = about_clock(*visitor.who, visitor.name()); !clock.empty())
    say("trainer: warning: {}\n", clock);
  std::string next;
  if (waits) next = "; it joins after its preparation and the next save of all ranks";
  const auto wait = admissions_.wait_of(visitor.who->machine, Clock::now());
  if (waits && wait.count() > 0)
    next += fmt::format(", in {:g} s at the earliest, because it has joined and left repeatedly", seconds(wait));
  say("trainer: {} of {} is connected{}\n", visitor.name(), own_.machines, next);
  const bool meets = phase_ == Phase::kMeeting || phase_ == Phase::kFirstMeeting;
  if (meets && !is_complete() && !last_call_) say_who_is_missing();
}

/// Rejects a visitor. During the first meeting this ends the run (`ends_meeting`), as a mistake in how it was started.
void Leader::send_away(Visitor& visitor, int code, const std::string& why, bool ends_meeting) {
  if (ends_meeting && phase_ == Phase::kFirstMeeting) call_off(code, why);
  const bool known = visitor.who.has_value();
  if (known || ++strangers_ <= kMostStrangersNamed) say("trainer: {} was rejected: {}\n", visitor.name(), why);
  visitor.who.reset();
  refuse(visitor, code, known || !visitor.greeted ? why : "");  // don't disclose our settings to a stranger
}

/// The visitor hangs up once it has read the message; otherwise dismiss() drops it.
void Leader::refuse(Visitor& visitor, int code, const std::string& why) {
  visitor.line.send({.op = LinkOp::kEnd, .code = code, .strings = {why}});
  visitor.line.end();
  visitor.refused = true;
}

void Leader::ping() {
  if (Clock::now() < next_ping_) return;
  next_ping_ = Clock::now() + kPingEvery;
  for (Visitor& visitor : visitors_)
    if (visitor.who) visitor.line.send({.op = LinkOp::kPing});
}

void Leader::dismiss() {
  for (const Visitor& visitor : visitors_)
    if (visitor.who && !visitor.line.is_open()) lose(visitor);
  const Clock::time_point now = Clock::now();
  std::erase_if(visitors_, [&](const Visitor& visitor) {
    const bool silent =
        visitor.who ? now - visitor.heard > appointment_.silence : now - visitor.came > kGreetingPatience;
    if (visitor.line.is_open() && !silent) return false;
    if (visitor.who)
      say("trainer: {} disconnected{}\n", visitor.name(),
          phase_ == Phase::kAttempt || phase_ == Phase::kBetween ? "" : ": waiting for it again");
    return true;
  });
}

/// Ends the meeting if this machine is needed and can't return.
void Leader::lose(const Visitor& visitor) {
  const bool meets = phase_ == Phase::kMeeting || phase_ == Phase::kFirstMeeting;
  if (!meets || appointment_.starter.empty() || appointment_.is_elastic() || !visitor.line.closed_by_peer()) return;
  call_off(kPeerFailure, fmt::format("{} was lost before all machines had connected: {}\n  {} does not restart it",
                                     visitor.name(), visitor.line.why_closed(), appointment_.starter));
}

void Leader::check_settings() {
  std::vector<std::string> lines;
  bool other_build = false;
  for (const Visitor& visitor : visitors_) {
    if (!visitor.who) continue;
    other_build |= visitor.who->build != own_.build;
    for (std::string& line : differences(own_, *visitor.who)) lines.push_back(std::move(line));
  }
  if (lines.empty()) return;
  call_off(other_build ? kPeerFailure : kUsageFailure,
           fmt::format("the machines differ:\n  {}\n  start every machine with the same program, files and flags",
                       fmt::join(lines, "\n  ")));
}

void Leader::call_off(int code, const std::string& why) {
  std::vector<MachineLine*> lines;
  for (Visitor& visitor : visitors_) {
    if (!visitor.greeted) continue;
    refuse(visitor, code, visitor.who ? why : "");  // don't disclose our settings to a stranger
    lines.push_back(&visitor.line);
  }
  hang_up(lines);
  throw_ending({.op = LinkOp::kEnd, .code = code, .strings = {why}});
}

std::vector<int> Leader::here() const {
  std::set<int> machines;
  for (const Visitor& visitor : visitors_)
    if (visitor.who) machines.insert(visitor.who->machine);
  return {machines.begin(), machines.end()};
}

std::vector<int> Leader::missing() const {
  const std::vector<int> followers = here();
  std::vector<int> machines;
  for (int machine = 0; machine < own_.machines; ++machine)
    if (is_follower(machine) && !std::binary_search(followers.begin(), followers.end(), machine))
      machines.push_back(machine);
  return machines;
}

void Leader::say_who_is_missing() const {
  say("trainer: waiting for {} of {} at {} (for at most {:g} s{})\n", listed(missing()), own_.machines,
      endpoint_text(appointment_.host, appointment_.port), seconds(appointment_.patience),
      appointment_.is_elastic() ? fmt::format("; {} {} enough", appointment_.sizes.front(),
                                              appointment_.sizes.front() == 1 ? "machine is" : "machines are")
                                : "");
}

Visitor* Leader::numbered(int machine) {
  auto found = std::find_if(visitors_.begin(), visitors_.end(),
                            [&](const Visitor& visitor) { return visitor.who && visitor.who->machine == machine; });
  return found == visitors_.end() ? nullptr : &*found;
}

}  // namespace trainer::launch
