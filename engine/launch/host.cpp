#include "engine/launch/host.h"

#include <algorithm>
#include <cerrno>

#include <fmt/ranges.h>

#include "engine/base/errors.h"
#include "engine/launch/screen.h"
#include "engine/launch/secret.h"

namespace trainer::launch {
namespace {

constexpr std::chrono::seconds kPingEvery{1};
constexpr std::chrono::seconds kGreetingPatience{5};  // of somebody who has connected and says nothing
constexpr std::chrono::seconds kReminderEvery{60};
constexpr std::size_t kMostVisitors = 4096 + 64;  // beside the machines
constexpr int kMostStrangersNamed = 5;

std::string listed(const std::vector<int>& machines) {
  constexpr std::size_t kMost = 16;
  const std::vector<int> first(machines.begin(), machines.begin() + std::min(machines.size(), kMost));
  return fmt::format("machine{} {}{}", machines.size() == 1 ? "" : "s", fmt::join(first, ", "),
                     machines.size() > kMost ? ", …" : "");
}

}  // namespace

std::string Host::Visitor::name() const {
  return who ? fmt::format("machine {} ({}, {})", who->machine, who->name, from.host()) : from.text();
}

Machines Host::gather() {
  listen();
  say_who_is_missing();
  const Clock::time_point end = Clock::now() + appointment_.patience;
  Clock::time_point reminder = Clock::now() + kReminderEvery;
  while (!missing().empty()) {
    try {
      wait();
    } catch (const StoppedBeforeStart& stopped) {
      call_off(128 + stopped.signal, "");
    }
    accept_visitors();
    for (Visitor& visitor : visitors_) hear(visitor);
    ping();
    dismiss();
    const Clock::time_point now = Clock::now();
    if (now >= reminder) say_who_is_missing();
    if (now >= reminder) reminder = now + kReminderEvery;
    if (now < end || missing().empty()) continue;
    call_off(kPeerFailure,
             fmt::format("{} of {} did not come to {} within {:g} s\n  start {} with --node_rank and the same "
                         "--master_addr and --master_port; a firewall must let port {} through",
                         listed(missing()), own_.machines, endpoint_text(appointment_.host, appointment_.port),
                         std::chrono::duration<double>(appointment_.patience).count(),
                         missing().size() == 1 ? "it" : "them", appointment_.port));
  }
  check_settings();
  std::vector<Machine> others;
  std::string own_address;
  for (Visitor& visitor : visitors_) {
    if (!visitor.who) continue;
    const int number = visitor.who->machine;
    if (own_address.empty()) own_address = address_for_ranks(visitor.line.fd()).host();
    others.push_back({.number = number, .name = visitor.name(), .line = std::move(visitor.line)});
  }
  return {std::move(others), own_address, appointment_.silence};
}

void Host::listen() {
  std::string why;
  for (const Address& address : resolve(appointment_.host, appointment_.port)) {
    try {
      listeners_.push_back(listen_on(address));
    } catch (const MachineError& error) {
      why = error.what();
    }
  }
  if (listeners_.empty()) throw MachineError("{}", why);
}

void Host::wait() {
  std::vector<pollfd> events;
  for (const FileDescriptor& listener : listeners_) events.push_back({listener.get(), POLLIN, 0});
  for (const Visitor& visitor : visitors_) {
    const bool writes = visitor.line.has_unsent();
    events.push_back({visitor.line.fd(), static_cast<short>(writes ? POLLIN | POLLOUT : POLLIN), 0});
  }
  wait_for(std::move(events), next_ping_, signals_);
}

void Host::accept_visitors() {
  for (const FileDescriptor& listener : listeners_) {
    while (visitors_.size() < kMostVisitors) {
      FileDescriptor socket(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!socket) break;  // nobody is there, or has gone again already
      watch_over(socket);
      try {
        const Address from = other_address(socket.get());
        visitors_.push_back({.line = MachineLine(std::move(socket)), .from = from});
      } catch (const PeerError&) {  // has gone again
      }
    }
  }
}

void Host::hear(Visitor& visitor) {
  try {
    visitor.line.flush();
    while (auto message = visitor.line.next()) {
      visitor.heard = Clock::now();
      if (visitor.refused || visitor.who) continue;  // signs of life
      if (visitor.greeted) {
        admit(visitor, introduction_of(*message));
      } else {
        greet(visitor, *message);
      }
    }
  } catch (const PeerError& error) {
    if (visitor.greeted && !visitor.who && !visitor.refused) {
      call_off(kPeerFailure, fmt::format("{} came with another secret than machine 0\n  set the same TRAINER_SECRET on "
                                         "every machine",
                                         visitor.from.host()));
    }
    if (!visitor.greeted && ++strangers_ <= kMostStrangersNamed)
      say("trainer: {} connected and is no machine of this run: {}\n", visitor.from.text(), error.what());
    visitor.line.close();
  }
}

void Host::greet(Visitor& visitor, const LinkMessage& hello) {
  if (hello.op != LinkOp::kHello || hello.strings.size() != 2 || hello.strings[1].size() != kNonceBytes)
    throw PeerError("no greeting");
  if (hello.strings[0] != kProtocol) {
    const std::string why = fmt::format(
        "{} has another version of trainer than machine 0: install the same on every machine", visitor.from.host());
    refuse(visitor, kPeerFailure, why);
    call_off(kPeerFailure, why);
  }
  const std::string nonce = random_bytes(kNonceBytes);
  visitor.line.send({.op = LinkOp::kChallenge, .strings = {kProtocol, nonce}});
  Seals seals = make_seals(appointment_.secret, hello.strings[1], nonce);
  visitor.line.seal(std::move(seals.by_host), std::move(seals.by_guest));
  visitor.greeted = true;
}

void Host::admit(Visitor& visitor, Introduction who) {
  const Visitor* const same = numbered(who.machine);
  visitor.who = std::move(who);
  if (visitor.who->machines != own_.machines || visitor.who->machine < 1 || visitor.who->machine >= own_.machines) {
    call_off(
        kUsageFailure,
        fmt::format("{} says it is machine {} of {}, and there are {} here\n  give every machine the same --nnodes "
                    "(--num_machines), and a --node_rank below it",
                    visitor.from.host(), visitor.who->machine, visitor.who->machines, own_.machines));
  }
  if (same != nullptr) {
    const std::string name = visitor.name();
    const std::string why = fmt::format("{} is here already: every machine needs its own --node_rank", same->name());
    visitor.who.reset();
    say("trainer: {} was sent away: {}\n", name, why);
    return refuse(visitor, kPeerFailure, why);
  }
  visitor.line.trust();
  visitor.line.send({.op = LinkOp::kWelcome, .strings = {own_.name}});
  say("trainer: {} of {} is here\n", visitor.name(), own_.machines);
  if (!missing().empty()) say_who_is_missing();
}

/// It goes away by itself when it has read that; or it is dismissed.
void Host::refuse(Visitor& visitor, int code, const std::string& why) {
  visitor.line.send({.op = LinkOp::kEnd, .code = code, .strings = {why}});
  visitor.line.end();
  visitor.refused = true;
}

void Host::ping() {
  if (Clock::now() < next_ping_) return;
  next_ping_ = Clock::now() + kPingEvery;
  for (Visitor& visitor : visitors_)
    if (visitor.who) visitor.line.send({.op = LinkOp::kPing});
}

void Host::dismiss() {
  const Clock::time_point now = Clock::now();
  std::erase_if(visitors_, [&](const Visitor& visitor) {
    const bool silent = now - visitor.heard > (visitor.who ? appointment_.silence : kGreetingPatience);
    if (visitor.line.is_open() && !silent) return false;
    if (visitor.who) say("trainer: {} has gone: waiting for it again\n", visitor.name());
    return true;
  });
}

void Host::check_settings() {
  std::vector<std::string> lines;
  bool other_build = false;
  for (const Visitor& visitor : visitors_) {
    if (!visitor.who) continue;
    other_build |= visitor.who->build != own_.build;
    for (std::string& line : differences(own_, *visitor.who)) lines.push_back(std::move(line));
  }
  if (lines.empty()) return;
  call_off(
      other_build ? kPeerFailure : kUsageFailure,
      fmt::format("the machines are not alike:\n  {}\n  start every machine with the same program, files and flags",
                  fmt::join(lines, "\n  ")));
}

void Host::call_off(int code, const std::string& why) {
  std::vector<MachineLine*> lines;
  for (Visitor& visitor : visitors_) {
    if (!visitor.greeted) continue;
    refuse(visitor, code, visitor.who ? why : "");  // our settings are nobody else's business
    lines.push_back(&visitor.line);
  }
  hang_up(lines);
  throw_ending({.op = LinkOp::kEnd, .code = code, .strings = {why}});
}

std::vector<int> Host::missing() const {
  std::vector<int> machines;
  for (int machine = 1; machine < own_.machines; ++machine) {
    const bool here = std::any_of(visitors_.begin(), visitors_.end(), [&](const Visitor& visitor) {
      return visitor.who && visitor.who->machine == machine;
    });
    if (!here) machines.push_back(machine);
  }
  return machines;
}

void Host::say_who_is_missing() const {
  say("trainer: waiting for {} of {} at {} (for at most {:g} s)\n", listed(missing()), own_.machines,
      endpoint_text(appointment_.host, appointment_.port),
      std::chrono::duration<double>(appointment_.patience).count());
}

Host::Visitor* Host::numbered(int machine) {
  auto found = std::find_if(visitors_.begin(), visitors_.end(),
                            [&](const Visitor& visitor) { return visitor.who && visitor.who->machine == machine; });
  return found == visitors_.end() ? nullptr : &*found;
}

}  // namespace trainer::launch
