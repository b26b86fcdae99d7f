#include "engine/launch/supervisor.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "engine/base/errors.h"
#include "engine/launch/rank_command.h"
#include "engine/launch/supervision.h"

namespace trainer::launch {

void Supervision::start() {
  if (plan_.config.training.ddp_backend == config::DdpBackend::kMpi && plan_.world_size() > 1)
    slots_.emplace(plan_.world_size(), signals_.mask_before());
  const RankSurroundings about{.plan = plan_,
                               .attempt = attempt_,
                               .program = program_,
                               .assignment = assignment_,
                               .board_fd = watchdog_.board_fd(),
                               .own_address = machines_.own_address(),
                               .slots_folder = slots_ ? slots_->folder() : ""};
  for (int number = assignment_.first_rank(); number < assignment_.first_rank() + assignment_.ranks; ++number)
    ranks_.start(number, rank_command(number, about), signals_.mask_before());
}

Outcome Supervision::watch() {
  while (ranks_.any_alive() || has_to_stay()) {
    wait_for_events();
    take_signals();
    reap();
    hear_machines();
    if (attempt_.replication != nullptr) copy_checkpoints();
    for (Rank& rank : ranks_) {
      if (!rank.alive) continue;
      rank.line.flush();
      read_line(rank);
      rank.read_errors();
    }
    ask_to_save();
    pass_deadlines();
    let_in();
    if (!ranks_.any_alive()) say_finished();
    if (status_.is_served) note_status();
  }
  if (!assignment_.is_alone() && assignment_.is_leader() && !verdict_) end_all();
  // A request to stop may come when the other attempt is already decided on.
  return verdict_ && !(verdict_->again && ending_.is_asked()) ? *verdict_ : judged();
}

/// Whether to wait for other machines although our own ranks have ended: they decide our outcome, or we theirs.
bool Supervision::has_to_stay() const {
  if (assignment_.is_alone() || verdict_ || (verdict_deadline_ && Clock::now() >= *verdict_deadline_)) return false;
  if (copies_are_due()) return true;
  return std::any_of(machines_.others().begin(), machines_.others().end(),
                     [&](const Machine& machine) { return machine.line.is_open() && !machine.ended; });
}

void Supervision::wait_for_events() {
  std::vector<pollfd> events;
  signals_.add_events(events);
  ranks_.add_events(events);
  machines_.add_events(events);
  if (poll(events.data(), events.size(), milliseconds_to_next_deadline()) < 0 && errno != EINTR) {
    throw MachineError("cannot wait for the ranks: {}", std::strerror(errno));
  }
}

int Supervision::milliseconds_to_next_deadline() const {
  Clock::time_point next = watchdog_.next_measure();
  for (const auto& deadline :
       {exchange_.next_deadline(), ending_.next_deadline(), verdict_deadline_, machines_.next_deadline(),
        ranks_.give_up_at(), attempt_.replication ? attempt_.replication->next_deadline() : std::nullopt}) {
    if (deadline && *deadline < next) next = *deadline;
  }
  // A rank closes its line before it can be reaped, and SIGCHLD may have gone to a thread that a library has started.
  constexpr std::chrono::milliseconds kForTheEnd{20};
  if (std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.alive && !rank.line.is_open(); }))
    next = std::min(next, Clock::now() + kForTheEnd);
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 3'600'000));
}

void Supervision::pass_deadlines() {
  const Clock::time_point now = Clock::now();
  exchange_.expire(now);
  if (const auto end = ranks_.give_up_at(); end && now >= *end) ranks_.give_up();
  if (now >= watchdog_.next_measure()) watchdog_.measure_pace();
  if (now >= watchdog_.next_look()) look_after_ranks();
  for (Ending::Due due; (due = ending_.passed(now)) != Ending::Due::kNothing;) {
    if (due == Ending::Due::kSave) ending_.was_not_saved(why_abandoned());
    kill_all();
  }
}

/// For the status server.
void Supervision::note_status() {
  status_.is_ending = ending_.is_near();
  status_.ranks.clear();
  for (const Rank& rank : ranks_) {
    const RankState* const state = watchdog_.state(rank.number);
    status_.ranks.push_back({.number = rank.number,
                             .pid = rank.pid,
                             .is_alive = rank.alive,
                             .has_updated = rank.has_updated,
                             .still = state->still + state->silent});
  }
}

Outcome Supervision::outcome() const {
  return ending_.outcome(ranks_.all_done(), ranks_.last_step(), plan_.world_size() > 1);
}

/// The outcome, and whether another attempt follows.
Outcome Supervision::judged() const {
  Outcome ended = outcome();
  attempt_.judge(ended, ending_.is_asked() ? fmt::format("not restarted: stopped on {}", ending_.asked_by()) : "");
  return ended;
}

Outcome supervise(const config::Plan& plan, const Attempt& attempt, const RankProgram& program,
                  const Patience& patience, Machines& machines, SignalQueue& signals, RunStatus& status) {
  Supervision supervision(plan, attempt, program, patience, machines, signals, status);
  supervision.start();
  const Outcome outcome = supervision.watch();
  status.ranks.clear();
  supervision.show_last_words();
  return outcome;
}

}  // namespace trainer::launch
