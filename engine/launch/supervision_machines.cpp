// The other machines of the run: what their launchers say, who joins, and when all have ended.
#include <algorithm>
#include <csignal>
#include <utility>

#include <fmt/format.h>

#include "engine/launch/messages.h"
#include "engine/launch/screen.h"
#include "engine/launch/supervision.h"

namespace trainer::launch {

/// Leader: whether the run isn't over before its last checkpoint has its copies. A failed attempt is, and so is one
/// that continues with more machines.
bool Supervision::copies_are_due() const {
  if (attempt_.replication == nullptr || !assignment_.is_leader()) return false;
  if (ending_.is_killed() || ending_.has_failed() || outcome().grows) return false;
  return !replication_knows_end_ || attempt_.replication->is_busy();
}

void Supervision::copy_checkpoints() {
  if (!ranks_.any_alive() && !std::exchange(replication_knows_end_, true)) {
    attempt_.replication->ranks_have_ended(ranks_.all_done());
    if (copies_are_due()) say("trainer: waiting for the copies of the last checkpoint (checkpoint.replicas)\n");
  }
  attempt_.replication->serve();
}

/// Leader: yields to a generation with more machines, or to another leader, unless the attempt is ending anyway.
void Supervision::let_in() {
  if (ending_.is_near() || !ranks_.any_alive()) return;
  if (const std::string why = machines_.superseded(); !why.empty())
    return add({.step = ranks_.last_step(), .code = kPeerFailure, .message = why});
  if (const std::string newcomers = machines_.newcomers(); !newcomers.empty()) grow(newcomers);
}

/// The ranks save and stop, without a deadline: when the save fails they continue, and stop with the next one that
/// succeeds. Before the first update there is nothing to save.
void Supervision::grow(const std::string& newcomers) {
  ending_.yield(newcomers);
  const bool trains = ranks_.last_step() >= 0;
  say("trainer: {} can join{}\n", newcomers, trains ? ": saving after this step" : "");
  if (assignment_.is_leader()) machines_.send_all({.op = LinkOp::kGrow, .strings = {newcomers}});
  if (trains) return ranks_.signal(SIGURG);
  if (assignment_.is_leader()) kill_all();
}

void Supervision::hear_machines() {
  machines_.serve();
  for (Machine& machine : machines_.others()) {
    while (!machine.inbox.empty()) {
      LinkMessage letter = std::move(machine.inbox.front());
      machine.inbox.pop_front();
      take_letter(machine, std::move(letter));
    }
    if (!machine.lost.empty() && !machine.ended) lose(machine);
    if (!machine.lost.empty()) machine.ended = true;
  }
}

void Supervision::take_letter(Machine& machine, LinkMessage letter) {
  const auto text = [&](size_t i) { return i < letter.strings.size() ? letter.strings[i] : std::string(); };
  const bool from_host = machine.number == 0;
  if (attempt_.replication != nullptr && attempt_.replication->take(machine, letter)) return;
  if (letter.op == LinkOp::kCarry) {
    exchange_.deliver(machine, letter);
  } else if (letter.op == LinkOp::kStop) {
    if (!from_host) machines_.send_all(letter);
    stop(letter.number == SIGINT || letter.number == SIGUSR1 ? static_cast<int>(letter.number) : SIGTERM);
    if (letter.code != 0) stop_at_once();
  } else if (letter.op == LinkOp::kGrow && from_host) {
    if (!ending_.is_near()) grow(text(0));
  } else if (letter.op == LinkOp::kRankFails && !from_host) {
    add(read_failure(letter, machine.name));
  } else if (letter.op == LinkOp::kFinished && !from_host) {
    machine.ended = true;
    const bool stopped = letter.code == kInterrupted || letter.code == kStopRequested;
    if (stopped) ending_.others_have_stopped();
    if (stopped && !text(0).empty()) ending_.was_not_saved(text(0));
    if (stopped ? !text(0).empty() : letter.code != kDone) ending_.come_soon(!assignment_.is_alone());
  } else if (letter.op == LinkOp::kEnd && from_host) {
    verdict_ = read_outcome(letter);
    machine.ended = true;
    machine.line.close();
    kill_all();
  }
}

void Supervision::lose(const Machine& machine) {
  if (ending_.is_killed() || verdict_) return;
  add({.step = ranks_.last_step(),
       .code = kPeerFailure,
       .message =
           fmt::format("{} was lost: {}\n  its power, its network, or its `trainer launch` failed; see its screen",
                       machine.name, machine.lost)});
}

/// Follower: informs the leader, once, how our ranks have ended.
void Supervision::say_finished() {
  if (assignment_.is_leader() || said_finished_ || verdict_) return;
  said_finished_ = true;
  machines_.send(0, {.op = LinkOp::kFinished,
                     .code = outcome().code,
                     .number = ranks_.last_step(),
                     .strings = {ending_.why_not_saved()}});
}

/// Leader: ends the run on every machine with one outcome.
void Supervision::end_all() {
  verdict_ = judged();
  machines_.part(to_message(*verdict_));
}

}  // namespace trainer::launch
