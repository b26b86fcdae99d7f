#include "engine/launch/supervisor.h"

#include <poll.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include "engine/base/errors.h"
#include "engine/base/host_name.h"
#include "engine/base/mpi_slot.h"
#include "engine/launch/ending.h"
#include "engine/launch/exchange.h"
#include "engine/launch/failure.h"
#include "engine/launch/line.h"
#include "engine/launch/machines.h"
#include "engine/launch/messages.h"
#include "engine/launch/mpi_slots.h"
#include "engine/launch/outcome.h"
#include "engine/launch/process.h"
#include "engine/launch/rank_assignment.h"
#include "engine/launch/rank_command.h"
#include "engine/launch/ranks.h"
#include "engine/launch/screen.h"
#include "engine/launch/signals.h"
#include "engine/launch/stop_signals.h"
#include "engine/launch/watchdog.h"

namespace trainer::launch {
namespace {

double seconds_of(std::chrono::milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

class Supervisor {
 public:
  Supervisor(const config::Plan& plan, const Attempt& attempt, const RankProgram& program, const Patience& patience,
             Machines& machines, SignalQueue& signals, RunStatus& status)
      : plan_(plan),
        attempt_(attempt),
        status_(status),
        plan_text_(config::to_text(plan)),
        program_(program),
        patience_(patience),
        assignment_(rank_assignment_of(plan)),
        signals_(signals),
        machines_(machines),
        exchange_(assignment_, machines, ranks_),
        ending_(patience.cause, patience.distant,
                std::chrono::milliseconds(std::llround(1000 * plan.config.checkpoint.grace_seconds))),
        stop_signals_(patience.together),
        watchdog_(assignment_.first_rank(), assignment_.ranks, static_cast<int>(plan.world_size()), patience.watch) {}

  void start();
  Outcome watch();
  void show_last_words() const { ranks_.show_last_words(); }

 private:
  void check_seats();
  void wait_for_events();
  int milliseconds_to_next_deadline() const;
  void take_signals();
  void ask_to_save();
  void stop(int signal);
  void stop_at_once();
  std::chrono::milliseconds grace_before_kill() const;
  void let_in();
  void grow(const std::string& newcomers);
  void pass_deadlines();

  void reap();
  void bury(Rank& rank, int status);
  void read_line(Rank& rank);
  void take_message(Rank& rank, const LinkMessage& message);
  bool is_ours(int rank) const { return rank >= 0 && assignment_.machine_of(rank) == assignment_.machine; }

  void hear_machines();
  void take_letter(Machine& machine, LinkMessage letter);
  void lose(const Machine& machine);
  void say_finished();
  bool has_to_stay() const;
  bool copies_are_due() const;
  void copy_checkpoints();

  void note_status();
  std::optional<Failure> look();
  void look_after_ranks();
  void show_ranks();

  void fail(Rank& rank, Failure failure);
  void add_own(Failure failure);
  void add(Failure failure);
  void stop_all(int signal);
  void kill_all();
  void end_all();
  std::string own_name() const;
  Outcome outcome() const;
  Outcome judged() const;

  const config::Plan& plan_;
  const Attempt& attempt_;
  RunStatus& status_;
  const std::string plan_text_;
  const RankProgram program_;
  const Patience patience_;
  const RankAssignment assignment_;
  SignalQueue& signals_;
  Machines& machines_;
  std::optional<MpiSlots> slots_;
  Ranks ranks_;
  Exchange exchange_;
  Ending ending_;
  StopSignals stop_signals_;
  Watchdog watchdog_;
  bool said_finished_ = false;          // the leader knows that our ranks have ended
  bool replication_knows_end_ = false;  // so does what copies checkpoints
  std::optional<Outcome> verdict_;      // the leader's outcome of the run; on several machines only
  std::optional<Clock::time_point> verdict_deadline_;
  bool save_asked_ = false;  // and not forwarded yet
  bool is_cut_ = false;      // the scheduler leaves less time to save than checkpoint.grace_seconds
};

/// How long the launcher waits, after a transport has failed, for a rank that is on its way into a wrong collective.
constexpr std::chrono::milliseconds kForAMajority{1000};

void Supervisor::start() {
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

Outcome Supervisor::watch() {
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
bool Supervisor::has_to_stay() const {
  if (assignment_.is_alone() || verdict_ || (verdict_deadline_ && Clock::now() >= *verdict_deadline_)) return false;
  if (copies_are_due()) return true;
  return std::any_of(machines_.others().begin(), machines_.others().end(),
                     [&](const Machine& machine) { return machine.line.is_open() && !machine.ended; });
}

/// Leader: whether the run isn't over before its last checkpoint has its copies. A failed attempt is, and so is one
/// that continues with more machines.
bool Supervisor::copies_are_due() const {
  if (attempt_.replication == nullptr || !assignment_.is_leader()) return false;
  if (ending_.is_killed() || ending_.has_failed() || outcome().grows) return false;
  return !replication_knows_end_ || attempt_.replication->is_busy();
}

void Supervisor::copy_checkpoints() {
  if (!ranks_.any_alive() && !std::exchange(replication_knows_end_, true)) {
    attempt_.replication->ranks_have_ended(ranks_.all_done());
    if (copies_are_due()) say("trainer: waiting for the copies of the last checkpoint (checkpoint.replicas)\n");
  }
  attempt_.replication->serve();
}

void Supervisor::wait_for_events() {
  std::vector<pollfd> events;
  signals_.add_events(events);
  ranks_.add_events(events);
  machines_.add_events(events);
  if (poll(events.data(), events.size(), milliseconds_to_next_deadline()) < 0 && errno != EINTR) {
    throw MachineError("cannot wait for the ranks: {}", std::strerror(errno));
  }
}

int Supervisor::milliseconds_to_next_deadline() const {
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

void Supervisor::take_signals() {
  for (int signal : signals_.take()) {
    if (signal == SIGCHLD) continue;  // it wakes us
    if (signal == SIGQUIT)
      show_ranks();
    else if (signal == SIGUSR2)
      save_asked_ = true;
    else
      stop_all(signal);
  }
}

/// Forwards the request to one rank, once it trains (before, the signal would kill it). One rank is enough: after each
/// update all ranks learn whether any was asked.
void Supervisor::ask_to_save() {
  const auto ready = [](const Rank& rank) { return rank.alive && rank.step >= 0; };
  const auto found = std::find_if(ranks_.begin(), ranks_.end(), ready);
  if (!save_asked_ || found == ranks_.end()) return;
  save_asked_ = false;
  kill(found->pid, SIGUSR2);
  say("trainer: saving after this step\n");
}

/// Forwards a signal that this launcher received to every machine. See Note [Stop signals].
void Supervisor::stop_all(int signal) {
  const bool repeated = stop_signals_.is_repeated(signal, Clock::now());
  if (!repeated && ending_.is_asked()) return;
  machines_.send_all({.op = LinkOp::kStop, .code = repeated ? 1 : 0, .number = signal});
  stop(signal);
  if (repeated) stop_at_once();
}

/// A second is left to stop the ranks and to report.
std::chrono::milliseconds Supervisor::grace_before_kill() const {
  return std::max(patience_.kill_wait - std::chrono::milliseconds(1000), patience_.kill_wait / 2);
}

void Supervisor::stop_at_once() {
  ending_.was_not_saved("second signal: not saving");
  kill_all();
}

/// Leader: yields to a generation with more machines, or to another leader, unless the attempt is ending anyway.
void Supervisor::let_in() {
  if (ending_.is_near() || !ranks_.any_alive()) return;
  if (const std::string why = machines_.superseded(); !why.empty())
    return add({.step = ranks_.last_step(), .code = kPeerFailure, .message = why});
  if (const std::string newcomers = machines_.newcomers(); !newcomers.empty()) grow(newcomers);
}

/// The ranks save and stop, without a deadline: when the save fails they continue, and stop with the next one that
/// succeeds. Before the first update there is nothing to save.
void Supervisor::grow(const std::string& newcomers) {
  ending_.yield(newcomers);
  const bool trains = ranks_.last_step() >= 0;
  say("trainer: {} can join{}\n", newcomers, trains ? ": saving after this step" : "");
  if (assignment_.is_leader()) machines_.send_all({.op = LinkOp::kGrow, .strings = {newcomers}});
  if (trains) return ranks_.signal(SIGURG);
  if (assignment_.is_leader()) kill_all();
}

void Supervisor::stop(int signal) {
  if (ending_.is_asked()) return;
  // SLURM's SIGTERM is followed by SIGKILL: the run ends before it, to report how. Its other signals aren't.
  is_cut_ = signal == SIGTERM && patience_.kill_wait.count() > 0 && grace_before_kill() < ending_.grace();
  if (is_cut_) ending_.limit_grace(grace_before_kill());
  ending_.stop(signal);
  if (ending_.has_failed() || ending_.is_killed()) return;  // the attempt is ending anyway, and none follows
  ranks_.signal(ending_.signal_for_ranks());
  if (signal == SIGINT) keep_last_line();
  say("trainer: {}: {}{}{}\n", signal_name(signal),
      plan_.config.checkpoint.save_on_signal ? "saving, then stopping" : "stopping after this step",
      StopSignals::can_repeat(signal) ? " (once more to stop at once)" : "",
      is_cut_ ? fmt::format("; SLURM kills the job within {:g} s (KillWait)", seconds_of(patience_.kill_wait)) : "");
}

void Supervisor::pass_deadlines() {
  const Clock::time_point now = Clock::now();
  exchange_.expire(now);
  if (const auto end = ranks_.give_up_at(); end && now >= *end) ranks_.give_up();
  if (now >= watchdog_.next_measure()) watchdog_.measure_pace();
  if (now >= watchdog_.next_look()) look_after_ranks();
  for (Ending::Due due; (due = ending_.passed(now)) != Ending::Due::kNothing;) {
    if (due == Ending::Due::kSave)
      ending_.was_not_saved(
          is_cut_ ? fmt::format("save abandoned after {:g} s: SLURM kills a job {:g} s after SIGTERM (KillWait)\n  "
                                "`scancel --signal=USR1` and `sbatch --signal=USR1@N` leave it more time",
                                seconds_of(ending_.grace()), seconds_of(patience_.kill_wait))
                  : fmt::format("save abandoned: not finished after {:g} s (checkpoint.grace_seconds)",
                                plan_.config.checkpoint.grace_seconds));
    kill_all();
  }
}

void Supervisor::reap() {
  ranks_.reap([this](Rank& rank, int status) { bury(rank, status); });
  check_seats();
}

void Supervisor::check_seats() {
  if (!slots_ || ending_.is_killed() || !ranks_.any_alive()) return;
  auto why = slots_->lost();
  if (!why) return;
  add_own({.code = kMachineFailure, .message = std::move(*why)});
}

/// Reads a dead rank's remaining output, and judges its exit status.
void Supervisor::bury(Rank& rank, int status) {
  read_line(rank);
  rank.read_errors();
  rank.line.close();
  rank.errors.reset();
  exchange_.forget(rank.number);
  if (ending_.is_killed() || rank.reported) return;
  if (const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0; code == kInterrupted || code == kStopRequested)
    return ending_.rank_has_stopped(code);
  Failure failure = failure_of_status(status, rank.done);
  if (failure.code == kDone) return;
  const bool died_of_stop = ending_.is_asked() && WIFSIGNALED(status) && WTERMSIG(status) == ending_.signal_for_ranks();
  if (died_of_stop) {
    ending_.was_not_saved("not saving: the ranks were not ready yet");
    return ending_.come_soon(!assignment_.is_alone());
  }
  rank.silent = true;
  fail(rank, std::move(failure));
}

void Supervisor::read_line(Rank& rank) {
  try {
    for (const LinkMessage& message : rank.line.receive()) take_message(rank, message);
  } catch (const PeerError& error) {
    rank.line.close();
    fail(rank, {.code = kInternalFailure, .message = error.what()});
  }
}

void Supervisor::take_message(Rank& rank, const LinkMessage& message) {
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

/// For the status server.
void Supervisor::note_status() {
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

std::optional<Failure> Supervisor::look() {
  return watchdog_.look(ranks_.subjects());
}

void Supervisor::look_after_ranks() {
  const std::optional<Failure> failure = look();
  if (const std::string notice = watchdog_.take_notice(); !notice.empty()) say("{}", notice);
  if (!failure || ending_.is_settled()) return;
  ending_.note_states(watchdog_.states());
  if (is_ours(failure->rank)) Ranks::show_stack(ranks_.numbered(failure->rank));
  add_own(*failure);
}

void Supervisor::show_ranks() {
  look();
  say("trainer: where the ranks are\n{}", table_of(watchdog_.states()));
}

void Supervisor::hear_machines() {
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

void Supervisor::take_letter(Machine& machine, LinkMessage letter) {
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

void Supervisor::lose(const Machine& machine) {
  if (ending_.is_killed() || verdict_) return;
  add({.step = ranks_.last_step(),
       .code = kPeerFailure,
       .message =
           fmt::format("{} was lost: {}\n  its power, its network, or its `trainer launch` failed; see its screen",
                       machine.name, machine.lost)});
}

/// Follower: informs the leader, once, how our ranks have ended.
void Supervisor::say_finished() {
  if (assignment_.is_leader() || said_finished_ || verdict_) return;
  said_finished_ = true;
  machines_.send(0, {.op = LinkOp::kFinished,
                     .code = outcome().code,
                     .number = ranks_.last_step(),
                     .strings = {ending_.why_not_saved()}});
}

void Supervisor::fail(Rank& rank, Failure failure) {
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
void Supervisor::add_own(Failure failure) {
  if (!assignment_.is_alone() && failure.rank >= 0) failure.machine = own_name();
  if (!assignment_.is_leader()) machines_.send(0, to_message(failure));
  add(std::move(failure));
}

void Supervisor::add(Failure failure) {
  if (ending_.is_killed()) return;
  ending_.add(std::move(failure));
  ending_.come_soon(!assignment_.is_alone());
}

void Supervisor::kill_all() {
  ending_.kill();
  ranks_.kill_all();
  if (assignment_.is_alone() || verdict_) return;
  if (assignment_.is_leader()) return end_all();
  if (!verdict_deadline_) verdict_deadline_ = Clock::now() + patience_.distant;
}

/// Leader: ends the run on every machine with one outcome.
void Supervisor::end_all() {
  verdict_ = judged();
  machines_.part(to_message(*verdict_));
}

std::string Supervisor::own_name() const {
  return fmt::format("machine {} ({}, {})", attempt_.machine, host_name(), machines_.own_address());
}

Outcome Supervisor::outcome() const {
  return ending_.outcome(ranks_.all_done(), ranks_.last_step(), plan_.world_size() > 1);
}

/// The outcome, and whether another attempt follows.
Outcome Supervisor::judged() const {
  Outcome ended = outcome();
  attempt_.judge(ended, ending_.is_asked() ? fmt::format("not restarted: stopped on {}", ending_.asked_by()) : "");
  return ended;
}

}  // namespace

Outcome supervise(const config::Plan& plan, const Attempt& attempt, const RankProgram& program,
                  const Patience& patience, Machines& machines, SignalQueue& signals, RunStatus& status) {
  Supervisor supervisor(plan, attempt, program, patience, machines, signals, status);
  supervisor.start();
  const Outcome outcome = supervisor.watch();
  status.ranks.clear();
  supervisor.show_last_words();
  return outcome;
}

}  // namespace trainer::launch
