// The ranks of this machine: what they say, how they end, and which of their failures is the cause.
#include <sys/wait.h>

#include <algorithm>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "engine/base/errors.h"
#include "engine/base/host_name.h"
#include "engine/launch/messages.h"
#include "engine/launch/screen.h"
#include "engine/launch/supervision.h"

namespace trainer::launch {
namespace {

/// How long the launcher waits, after a transport has failed, for a rank that is on its way into a wrong collective.
constexpr std::chrono::milliseconds kForAMajority{1000};

}  // namespace

void Supervision::reap() {
  ranks_.reap([this](Rank& rank, int status) { bury(rank, status); });
  check_seats();
}

void Supervision::check_seats() {
  if (!slots_ || ending_.is_killed() || !ranks_.any_alive()) return;
  auto why = slots_->lost();
  if (!why) return;
  add_own({.code = kMachineFailure, .message = std::move(*why)});
}

/// Reads a dead rank's remaining output, and judges its exit status.
void Supervision::bury(Rank& rank, int status) {
  read_line(rank);
  rank.read_errors();
  rank.line.close();
  rank.errors.reset();
  exchange_.forget(rank.number);
  if (ending_.is_killed() || rank.reported) return;
  if (const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0; code == kInterrupted || code == kStopRequested)
    return ending_.rank_has_stopped(code);
  Failure failure = failure_of_status(status, rank.done, watchdog_.unreadable_file(rank.number));
  if (failure.code == kDone) return;
  const bool died_of_stop = ending_.is_asked() && WIFSIGNALED(status) && WTERMSIG(status) == ending_.signal_for_ranks();
  if (died_of_stop) {
    ending_.was_not_saved("not saving: the ranks were not ready yet");
    return ending_.come_soon(!assignment_.is_alone());
  }
  rank.silent = true;
  fail(rank, std::move(failure));
}

void Supervision::read_line(Rank& rank) {
  try {
    for (const LinkMessage& message : rank.line.receive()) take_message(rank, message);
  } catch (const PeerError& error) {
    rank.line.close();
    fail(rank, {.code = kInternalFailure, .message = error.what()});
  }
}

void Supervision::take_message(Rank& rank, const LinkMessage& message) {
  switch (message.op) {
    case LinkOp::kPlan:
      return rank.line.send({.id = message.id, .strings = {plan_text_}});
    case LinkOp::kPeerKey:
      return rank.line.send({.id = message.id, .strings = {attempt_.peer_key}});
    case LinkOp::kMetrics:
      if (!message.strings.empty()) status_.values.take(message.strings.front());
      return;
    case LinkOp::kSave:
      ++(message.code == 0 ? status_.saves : status_.failed_saves);
      return;
    case LinkOp::kStep:
      rank.has_updated |= rank.phase == kOptimizerStep;
      rank.step = message.number;
      rank.phase = message.strings.empty() ? "" : message.strings.front();
      return;
    case LinkOp::kFailure:
      if (rank.reported) return;
      rank.reported = true;
      rank.step = std::max(rank.step, message.number);
      return fail(rank, {.code = message.code > 0 ? message.code : kInternalFailure,
                         .message = message.strings.empty() ? "" : message.strings.front()});
    case LinkOp::kDone:
      rank.done = true;
      return;
    case LinkOp::kReply:
      return;
    default:
      return exchange_.ask(rank.number, message);
  }
}

std::optional<Failure> Supervision::look() {
  return watchdog_.look(ranks_.subjects());
}

void Supervision::look_after_ranks() {
  const std::optional<Failure> failure = look();
  if (const std::string notice = watchdog_.take_notice(); !notice.empty()) say("{}", notice);
  if (!failure || ending_.is_settled()) return;
  ending_.note_states(watchdog_.states());
  if (is_ours(failure->rank)) Ranks::show_stack(ranks_.numbered(failure->rank));
  add_own(*failure);
}

void Supervision::show_ranks() {
  look();
  say("trainer: where the ranks are\n{}", table_of(watchdog_.states()));
}

void Supervision::fail(Rank& rank, Failure failure) {
  if (ending_.is_killed()) return;
  // A peer may have been lost because some rank diverged in its collectives, or is long overdue: then that is the
  // cause.
  if (!ending_.has_failed()) {
    const RankStates before = watchdog_.states();  // from when this rank still ran, and may have waited
    std::optional<Failure> seen = look();
    // The transport may notice a wrong collective before the rank that shows whose it is has called its own.
    const Clock::time_point end = Clock::now() + kForAMajority;
    while (!seen && failure.code == kPeerFailure && will_differ(watchdog_.states()) && Clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      seen = look();
    }
    ending_.note_states(watchdog_.states());
    if (!seen && failure.code == kPeerFailure) seen = late(before, patience_.watch.tell);
    if (seen && (seen->code == kInternalFailure || failure.code == kPeerFailure)) add_own(*seen);
  }
  const RankState* const state = watchdog_.state(rank.number);
  if (const bool knows_why = rank.reported && failure.code != kPeerFailure; !knows_why && state->beats > 0)
    failure.message += fmt::format("\n  it {}", doing_of(*state, Tense::kPast));
  failure.rank = rank.number;
  failure.step = rank.step;
  failure.phase = rank.phase;
  add_own(std::move(failure));
}

/// Adds a failure on this machine, and reports it to the leader.
void Supervision::add_own(Failure failure) {
  if (!assignment_.is_alone() && failure.rank >= 0) failure.machine = own_name();
  if (!assignment_.is_leader()) machines_.send(0, to_message(failure));
  add(std::move(failure));
}

void Supervision::add(Failure failure) {
  if (ending_.is_killed()) return;
  ending_.add(std::move(failure));
  ending_.come_soon(!assignment_.is_alone());
}

std::string Supervision::own_name() const {
  return fmt::format("machine {} ({}, {})", attempt_.machine, host_name(), machines_.own_address());
}

}  // namespace trainer::launch
