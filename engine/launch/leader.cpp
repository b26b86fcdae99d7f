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

Leader::Leader(const Appointment& appointment, const Introduction& own, SignalQueue& signals, int64_t epoch)
    : appointment_(appointment), own_(own), signals_(signals), admissions_(appointment.rejoin), epoch_(epoch) {
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
  Clock::time_point reminder = Clock::now() + kReminderEvery, had_majority = Clock::now();
  while (!is_complete()) {
    try {
      wait(last_call_.value_or(end));
    } catch (const StoppedBeforeStart& stopped) {
      call_off(128 + stopped.signal, "");
    }
    serve();
    const Clock::time_point now = Clock::now();
    if (why_no_majority().empty()) had_majority = now;
    step_down_if_needed(had_majority);
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
  if (!could_begin()) {
    last_call_.reset();
    return false;
  }
  if (std::includes(followers.begin(), followers.end(), expected_.begin(), expected_.end())) return true;
  if (last_call_) return Clock::now() >= *last_call_;
  last_call_ = Clock::now() + last_call();
  say("trainer: {} of {} machines {} enough: others may join at {} within {:g} s\n", followers.size() + 1,
      own_.machines, followers.empty() ? "is" : "are", endpoint_text(appointment_.host, appointment_.port),
      seconds(last_call()));
  return last_call().count() == 0;
}

std::chrono::milliseconds Leader::last_call() const {
  constexpr std::chrono::milliseconds kForAHerald{3000};  // of a leader, if this machine has lost its disk
  const bool may_be_led = votes_ != nullptr && phase_ == Phase::kFirstMeeting && votes_->record().agreed.epoch == 0;
  return may_be_led ? std::max(appointment_.last_call, kForAHerald) : appointment_.last_call;
}

void Leader::step_down_if_needed(Clock::time_point without_majority_since) const {
  if (is_superseded() && votes_ == nullptr) throw MachineError("{}", superseded_);
  if (is_superseded()) throw SteppedDown{superseded_, successor_};
  if (Clock::now() - without_majority_since > appointment_.silence) throw SteppedDown{why_no_majority()};
}

/// Of the machines that would take part; "" if they have one, or need none.
std::string Leader::why_no_majority() const {
  if (votes_ == nullptr) return "";
  std::map<int, VoteRecord> records{{own_.machine, votes_->record()}};
  for (const int machine : here())
    if (std::ssize(records) < size_of(static_cast<int>(here().size()) + 1))
      records[machine] = numbered(machine)->who->votes;
  return launch::why_no_majority(records);
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
  if (herald_ && !in_attempt_.contains(0) && numbered(0) == nullptr) herald_->serve();
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
  const std::string no_majority = why_no_majority();
  call_off(kPeerFailure,
           fmt::format("{} of {} did not connect to {} within {:g} s{}\n  start {} with --node_rank and the same "
                       "--master_addr and --master_port; a firewall must let port {} through{}",
                       listed(missing()), own_.machines, endpoint_text(appointment_.host, appointment_.port),
                       seconds(appointment_.patience),
                       appointment_.is_elastic() ? fmt::format(", and the run needs at least {} machines", least) : "",
                       missing().size() == 1 ? "it" : "them", appointment_.port,
                       no_majority.empty() ? "" : "\n  " + no_majority + kAdviceWithoutMajority));
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
  if (herald_) herald_->add_events(events);
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
  const std::string why = why_no_majority();
  say("trainer: waiting for {} of {} at {} (for at most {:g} s{}){}\n", listed(missing()), own_.machines,
      endpoint_text(appointment_.host, appointment_.port), seconds(appointment_.patience),
      appointment_.is_elastic() ? fmt::format("; {} {} enough", appointment_.sizes.front(),
                                              appointment_.sizes.front() == 1 ? "machine is" : "machines are")
                                : "",
      why.empty() ? "" : "\n  " + why);
}

const Visitor* Leader::numbered(int machine) const {
  const auto found = std::find_if(visitors_.begin(), visitors_.end(), [&](const Visitor& visitor) {
    return visitor.who && visitor.who->machine == machine;
  });
  return found == visitors_.end() ? nullptr : &*found;
}

}  // namespace trainer::launch
