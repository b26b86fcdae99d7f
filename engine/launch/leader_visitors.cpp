// How the leader receives what connects to it: machines of the run, and strangers.
#include <algorithm>
#include <cstdlib>
#include <utility>

#include <fmt/ranges.h>

#include "engine/base/errors.h"
#include "engine/launch/leader.h"
#include "engine/launch/screen.h"
#include "engine/launch/secret.h"

namespace trainer::launch {
namespace {

constexpr std::chrono::seconds kGreetingPatience{5};  // for a visitor to introduce itself, or to read its refusal
constexpr int kMostStrangersNamed = 5;

}  // namespace

void Leader::hear(Visitor& visitor) {
  try {
    visitor.line.flush();
    while (auto message = visitor.line.next()) {
      visitor.heard = Clock::now();
      visitor.prepared |= visitor.who && message->op == LinkOp::kPrepared;
      if (visitor.refused || visitor.who) continue;  // only keeps the connection alive
      if (visitor.greeted && message->op == LinkOp::kEnd) {
        hear_end(visitor, *message);
      } else if (visitor.greeted && message->op == LinkOp::kLeads) {
        hear_leader(visitor, *message);
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
    return send_away(
        visitor, kPeerFailure,
        fmt::format("{} has a different secret than machine 0\n  set the same TRAINER_SECRET on every machine",
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
  visitor.line.send({.op = LinkOp::kChallenge, .number = epoch_, .strings = {kProtocol, nonce}});
  Seals seals = make_seals(appointment_.key, hello.strings[1], nonce, epoch_);
  visitor.line.seal(std::move(seals.by_leader), std::move(seals.by_follower));
  if (!appointment_.key.empty()) visitor.line.encrypt();
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
  const bool asks_for_votes = epoch_ == 0 && !farewell_;
  if (asks_for_votes && own_.machine >= visitor.who->candidates_below) {
    visitor.who.reset();
    return visitor.line.close();  // it looks elsewhere
  }
  if (visitor.who->epoch > epoch_ && !asks_for_votes && !farewell_) return meet_higher_epoch(visitor);
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

/// Another machine leads a later generation: this one has lost its disk, or was cut off.
void Leader::hear_leader(Visitor& visitor, const LinkMessage& leads) {
  visitor.refused = true;
  visitor.line.end();
  if (votes_ == nullptr || leads.strings.size() != 2 || leads.number <= votes_->record().agreed.epoch) return;
  successor_ =
      LeaderPlace{.machine = leads.code, .host = leads.strings[0], .port = std::atoi(leads.strings[1].c_str())};
  superseded_ = fmt::format("machine {} leads the run, at {} (leader epoch {})", leads.code,
                            endpoint_text(successor_->host, successor_->port), leads.number);
}

/// The visitor has followed a later leader than this one. If this one has led nothing yet, it takes a higher epoch,
/// under which the visitor connects again; otherwise it was succeeded while it was paused or cut off.
void Leader::meet_higher_epoch(Visitor& visitor) {
  const int64_t higher = visitor.who->epoch;
  const int64_t now = phase_ == Phase::kFirstMeeting && outbid_ ? outbid_(higher) : 0;
  if (now > higher) {
    epoch_ = now;
    visitor.who.reset();
    return visitor.line.close();
  }
  superseded_ = fmt::format(
      "machine {} leads no longer: {} has followed leader epoch {}, which is higher than its own, {}\n"
      "  it was paused or cut off, and another machine has succeeded it",
      own_.machine, visitor.name(), higher, epoch_);
  send_away(visitor, kMachineFailure, superseded_, false);
}

void Leader::welcome(Visitor& visitor) {
  const bool waits = phase_ == Phase::kAttempt;
  visitor.line.trust();
  visitor.line.send({.op = LinkOp::kWelcome, .code = waits ? 1 : 0, .number = own_.machine, .strings = {own_.name}});
  if (waits && in_attempt_.contains(visitor.who->machine))
    return say("trainer: {} connected, but a machine with its number is training: it waits for the next generation\n",
               visitor.name());
  for (const std::string& warning :
       {about_clock(*visitor.who, visitor.name()), about_gpus(own_, *visitor.who, visitor.name())})
    if (!warning.empty()) say("trainer: warning: {}\n", warning);
  std::string next;
  if (waits) next = "; it joins after its preparation and the next save of all ranks";
  const auto wait = admissions_.wait_of(visitor.who->machine, Clock::now());
  if (waits && wait.count() > 0)
    next += fmt::format(", in {:g} s at the earliest, because it has joined and left repeatedly",
                        std::chrono::duration<double>(wait).count());
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

}  // namespace trainer::launch
