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
#include <vector>

#include <fmt/ranges.h>

#include "engine/base/errors.h"
#include "engine/base/mpi_seat.h"
#include "engine/launch/failure.h"
#include "engine/launch/letters.h"
#include "engine/launch/line.h"
#include "engine/launch/machines.h"
#include "engine/launch/mpi_seats.h"
#include "engine/launch/native_stack.h"
#include "engine/launch/outcome.h"
#include "engine/launch/output_tail.h"
#include "engine/launch/place.h"
#include "engine/launch/process.h"
#include "engine/launch/screen.h"
#include "engine/launch/signals.h"
#include "engine/launch/store.h"
#include "engine/launch/watchdog.h"

namespace trainer::launch {
namespace {

/// What the supervisor knows of one rank.
struct Rank {
  int number = 0;
  pid_t pid = 0;
  bool alive = true;
  bool done = false;      // it reported the end of the run
  bool reported = false;  // it reported a failure
  int64_t step = -1;
  std::string phase;
  Line line;
  FileDescriptor errors;
  OutputTail last_words;
};

class Supervisor {
 public:
  Supervisor(const config::Plan& plan, const Life& life, const RankProgram& program, const Patience& patience,
             Machines& machines, SignalQueue& signals)
      : plan_(plan),
        life_(life),
        plan_text_(config::to_text(plan)),
        program_(program),
        patience_(patience),
        place_(place_of(plan)),
        signals_(signals),
        machines_(machines),
        watchdog_(place_.first_rank(), place_.ranks, static_cast<int>(plan.world_size()), patience.watch) {}
  ~Supervisor();

  void start();
  Outcome watch();
  /// What ranks that died silently wrote to standard error.
  void show_last_words() const;

 private:
  Command command(int rank) const;
  void check_seats();
  void wait_for_events();
  int milliseconds_to_next_deadline() const;
  void take_signals();
  void ask_to_save();
  void stop(int signal);
  void let_in();
  void grow(const std::string& newcomers);
  void pass_deadlines();

  void reap();
  void bury(Rank& rank, int status);
  void read_errors(Rank& rank);
  void read_line(Rank& rank);
  void take_message(Rank& rank, const LinkMessage& message);
  void send(const std::vector<Store::Answer>& answers);
  Rank& rank_of(int number) { return ranks_.at(static_cast<size_t>(number - place_.first_rank())); }
  bool is_ours(int rank) const { return rank >= 0 && place_.machine_of(rank) == place_.machine; }

  void hear_machines();
  void take_letter(Machine& machine, const LinkMessage& letter);
  void deliver(Machine& machine, const LinkMessage& carried);
  void lose(const Machine& machine);
  void say_finished();
  bool has_to_stay() const;

  std::optional<Failure> look();
  void look_after_ranks();
  void show_ranks();
  static void show_stack(const Rank& rank);

  void fail(Rank& rank, Failure failure);
  void add_own(Failure failure);
  void add(Failure failure);
  void stop_all(int signal);
  void end_soon();
  void kill_all();
  void end_all();
  std::string own_name() const;
  Outcome outcome() const;
  Outcome judged() const;
  Outcome stopped_outcome() const;
  int64_t last_step() const;
  /// What ranks have for saving after a stop signal.
  std::chrono::milliseconds grace() const {
    return std::chrono::milliseconds(std::llround(1000 * plan_.config.checkpoint.grace_seconds));
  }
  bool any_alive() const {
    return std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.alive; });
  }

  const config::Plan& plan_;
  const Life& life_;
  const std::string plan_text_;
  const RankProgram program_;
  const Patience patience_;
  const Place place_;
  SignalQueue& signals_;
  Machines& machines_;
  std::optional<MpiSeats> seats_;
  std::vector<Rank> ranks_;
  Store store_;
  Watchdog watchdog_;
  Failures failures_;
  RankStates failed_ranks_;  // where all were when the first failure became known
  std::vector<int> silent_;  // ranks that died without a report, before we killed any

  // Why and when the ranks have to end.
  bool stopping_ = false;  // somebody asked the run to stop, or there are newcomers
  int stop_signal_ = 0;    // the signal that asked
  std::string newcomers_;  // for whom this life makes way for another one
  std::string not_saved_;  // why a stop came without a save; "" while it may have
  bool killed_ = false;    // the rest of the deaths are our doing
  std::optional<Clock::time_point> stop_deadline_;
  std::optional<Clock::time_point> cause_deadline_;
  bool said_finished_ = false;      // the host knows that our ranks have ended
  std::optional<Outcome> verdict_;  // of the run, by the host; of several machines only
  std::optional<Clock::time_point> verdict_deadline_;
};

Supervisor::~Supervisor() {
  kill_all();
  for (const Rank& rank : ranks_) {
    if (rank.alive) waitpid(rank.pid, nullptr, 0);
  }
}

Command Supervisor::command(int rank) const {
  const std::string threads = std::to_string(std::max<int64_t>(1, plan_.config.num_cpu_threads_per_process));
  Command command{.words = program_.words,
                  .environment = {{"RANK", std::to_string(rank)},
                                  {"LOCAL_RANK", std::to_string(rank - place_.first_rank())},
                                  {"WORLD_SIZE", std::to_string(plan_.world_size())},
                                  {"LOCAL_WORLD_SIZE", std::to_string(place_.ranks)},
                                  {"OMP_NUM_THREADS", threads},
                                  {"MKL_NUM_THREADS", threads},
                                  {kLifeVariable, std::to_string(life_.terms.life)},
                                  {kBoardVariable, std::to_string(watchdog_.board_fd())}},
                  .on_terminal = rank == 0,
                  .inherited = watchdog_.board_fd()};
  if (!program_.cpus.empty()) command.cpus = program_.cpus.at(static_cast<size_t>(rank - place_.first_rank()));
  if (!place_.is_alone()) command.environment[kAddressVariable] = machines_.own_address();
  if (!life_.terms.attempt.empty()) command.environment[kAttemptVariable] = life_.terms.attempt;
  if (seats_) command.environment[kSeatsVariable] = seats_->folder();
  return command;
}

void Supervisor::start() {
  if (plan_.config.training.ddp_backend == config::DdpBackend::kMpi && plan_.world_size() > 1)
    seats_.emplace(plan_.world_size(), signals_.mask_before());
  ranks_.reserve(static_cast<size_t>(place_.ranks));
  for (int number = place_.first_rank(); number < place_.first_rank() + place_.ranks; ++number) {
    Process process = start_process(command(number), signals_.mask_before());
    Rank& rank = ranks_.emplace_back();
    rank.number = number;
    rank.pid = process.pid;
    rank.line = Line(std::move(process.link));
    rank.errors = std::move(process.errors);
  }
}

Outcome Supervisor::watch() {
  while (any_alive() || has_to_stay()) {
    wait_for_events();
    take_signals();
    hear_machines();
    for (Rank& rank : ranks_) {
      if (!rank.alive) continue;
      rank.line.flush();
      read_line(rank);
      read_errors(rank);
    }
    pass_deadlines();
    let_in();
    if (!any_alive()) say_finished();
  }
  if (!place_.is_alone() && place_.is_host() && !verdict_) end_all();
  return verdict_ ? *verdict_ : judged();
}

/// Whether others decide about our end, or we about theirs, although our own ranks have ended.
bool Supervisor::has_to_stay() const {
  if (place_.is_alone() || verdict_ || (verdict_deadline_ && Clock::now() >= *verdict_deadline_)) return false;
  return std::any_of(machines_.others().begin(), machines_.others().end(),
                     [&](const Machine& machine) { return machine.line.is_open() && !machine.ended; });
}

void Supervisor::wait_for_events() {
  std::vector<pollfd> events{{signals_.fd(), POLLIN, 0}};
  for (const Rank& rank : ranks_) {
    if (rank.line.is_open()) {
      const bool writes = rank.line.has_unsent();
      events.push_back({rank.line.fd(), static_cast<short>(writes ? POLLIN | POLLOUT : POLLIN), 0});
    }
    if (rank.errors) events.push_back({rank.errors.get(), POLLIN, 0});
  }
  machines_.add_events(events);
  if (poll(events.data(), events.size(), milliseconds_to_next_deadline()) < 0 && errno != EINTR) {
    throw MachineError("cannot wait for the ranks: {}", std::strerror(errno));
  }
}

int Supervisor::milliseconds_to_next_deadline() const {
  Clock::time_point next = watchdog_.next_look();
  for (const auto& deadline :
       {store_.next_deadline(), stop_deadline_, cause_deadline_, verdict_deadline_, machines_.next_deadline()}) {
    if (deadline && *deadline < next) next = *deadline;
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 3'600'000));
}

void Supervisor::take_signals() {
  bool child_ended = false;
  for (int signal : signals_.take()) {
    if (signal == SIGCHLD)
      child_ended = true;
    else if (signal == SIGQUIT)
      show_ranks();
    else if (signal == SIGUSR2)
      ask_to_save();
    else
      stop_all(signal);
  }
  if (child_ended) reap();
}

/// One rank is enough: after each update all ranks learn whether any was asked.
void Supervisor::ask_to_save() {
  const auto ready = [](const Rank& rank) { return rank.alive && rank.step >= 0; };  // before, it would die of it
  const auto found = std::find_if(ranks_.begin(), ranks_.end(), ready);
  if (found == ranks_.end()) return say("trainer: not saving: the ranks have not begun to train\n");
  say("trainer: saving after this step\n");
  kill(found->pid, SIGUSR2);
}

/// Somebody sent us a signal: every machine hears of it. A second one comes from a person who doesn't want to wait.
void Supervisor::stop_all(int signal) {
  const bool again = stop_signal_ != 0;
  machines_.send_all({.op = LinkOp::kStop, .code = again ? 1 : 0, .number = signal});
  if (!again) return stop(signal);
  if (not_saved_.empty()) not_saved_ = "second signal: not saving";
  kill_all();
}

/// Host: makes way for a life with more machines, unless this one is ending anyway.
void Supervisor::let_in() {
  if (stopping_ || killed_ || !failures_.empty() || !any_alive()) return;
  if (const std::string newcomers = machines_.newcomers(); !newcomers.empty()) grow(newcomers);
}

/// The ranks save and stop as if they were asked to, but nobody is in a hurry. Before the first update there is nothing
/// to save.
void Supervisor::grow(const std::string& newcomers) {
  stopping_ = true;
  newcomers_ = newcomers;
  const bool trains = last_step() >= 0, saves = plan_.config.checkpoint.save_on_signal;
  say("trainer: {} can take part{}\n", newcomers, trains ? ": saving after this step" : "");
  if (place_.is_host()) machines_.send_all({.op = LinkOp::kGrow, .strings = {newcomers}});
  if (!trains && place_.is_host()) return kill_all();
  for (const Rank& rank : ranks_) {
    if (!rank.alive || !trains) continue;
    // All ranks stop when one was asked. A stop that doesn't save needs to be asked where the save is: at one rank.
    if (!saves && rank.number != 0) continue;
    if (!saves) kill(rank.pid, SIGUSR2);
    kill(rank.pid, SIGTERM);
  }
}

void Supervisor::stop(int signal) {
  if (stop_signal_ != 0) return;
  newcomers_.clear();  // they don't take part any more
  stop_signal_ = signal;
  stopping_ = true;
  stop_deadline_ = Clock::now() + grace();
  if (!failures_.empty()) return;  // the run is ending anyway
  say("trainer: {}: {} (once more to stop at once)\n", signal_name(signal),
      plan_.config.checkpoint.save_on_signal ? "saving, then stopping" : "stopping after this step");
  for (const Rank& rank : ranks_) {
    if (rank.alive) kill(rank.pid, signal == SIGINT ? SIGINT : SIGTERM);
  }
}

void Supervisor::pass_deadlines() {
  const Clock::time_point now = Clock::now();
  std::vector<Store::Answer> answers;
  store_.expire(now, answers);
  send(answers);
  if (now >= watchdog_.next_look()) look_after_ranks();
  if (cause_deadline_ && now >= *cause_deadline_) {
    cause_deadline_.reset();
    kill_all();
  }
  if (stop_deadline_ && now >= *stop_deadline_) {
    stop_deadline_.reset();
    if (not_saved_.empty())
      not_saved_ = fmt::format("save abandoned: not finished after {:g} s (checkpoint.grace_seconds)",
                               plan_.config.checkpoint.grace_seconds);
    kill_all();
  }
}

void Supervisor::reap() {
  for (Rank& rank : ranks_) {
    if (!rank.alive) continue;
    siginfo_t info{};
    if (waitid(P_PID, static_cast<id_t>(rank.pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
      continue;
    kill_group(rank.pid);  // what it started; before the wait below, after which the number may be another's
    int status = 0;
    waitpid(rank.pid, &status, 0);
    rank.alive = false;
    bury(rank, status);
  }
  check_seats();
}

void Supervisor::check_seats() {
  if (!seats_ || killed_ || !any_alive()) return;
  auto why = seats_->lost();
  if (!why) return;
  add_own({.code = kMachineFailure, .message = std::move(*why)});
  end_soon();
}

/// Takes what a dead rank has left, and judges its end.
void Supervisor::bury(Rank& rank, int status) {
  read_line(rank);
  read_errors(rank);
  rank.line.close();
  rank.errors.reset();
  store_.forget(rank.number);
  if (killed_ || rank.reported) return;
  const bool stopped =
      WIFEXITED(status) && (WEXITSTATUS(status) == kInterrupted || WEXITSTATUS(status) == kStopRequested);
  if (stopped) {
    // Ranks may agree to stop without us, when one of them alone got a signal.
    if (!stopping_) stop_deadline_ = Clock::now() + grace();
    stopping_ = true;
    if (stop_signal_ == 0 && WEXITSTATUS(status) == kInterrupted) stop_signal_ = SIGINT;
    return;
  }
  Failure failure = failure_of_status(status, rank.done);
  if (failure.code == kDone) return;
  const bool died_of_stop =
      stop_signal_ != 0 && WIFSIGNALED(status) && WTERMSIG(status) == (stop_signal_ == SIGINT ? SIGINT : SIGTERM);
  if (died_of_stop) {
    not_saved_ = "not saving: the ranks were not ready yet";
    return end_soon();
  }
  silent_.push_back(rank.number);
  fail(rank, std::move(failure));
}

void Supervisor::read_errors(Rank& rank) {
  char bytes[4096];
  // One piece a turn: a rank that floods its errors must not keep us from the others.
  if (!rank.errors) return;
  pollfd event{rank.errors.get(), POLLIN, 0};
  while (poll(&event, 1, 0) == 1) {
    ssize_t count = read(rank.errors.get(), bytes, sizeof(bytes));
    if (count <= 0) return rank.errors.reset();
    rank.last_words.append({bytes, static_cast<size_t>(count)});
    if (rank.alive) return;
  }
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
    case LinkOp::kStep:
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
      if (!place_.is_host())
        return machines_.send(0, {.op = LinkOp::kCarry, .number = rank.number, .strings = {encode_frame(message)}});
      std::vector<Store::Answer> answers;
      store_.handle(rank.number, message, Clock::now(), answers);
      return send(answers);
  }
}

void Supervisor::send(const std::vector<Store::Answer>& answers) {
  for (const auto& [rank, message] : answers) {
    if (!is_ours(rank)) {
      machines_.send(place_.machine_of(rank),
                     {.op = LinkOp::kCarry, .number = rank, .strings = {encode_frame(message)}});
    } else if (Line& line = rank_of(rank).line; line.is_open()) {
      line.send(message);
    }
  }
}

std::optional<Failure> Supervisor::look() {
  std::vector<Watchdog::Subject> subjects;
  for (const Rank& rank : ranks_) subjects.push_back({rank.pid, rank.alive && !rank.done});
  return watchdog_.look(subjects);
}

void Supervisor::look_after_ranks() {
  const std::optional<Failure> failure = look();
  if (const std::string notice = watchdog_.take_notice(); !notice.empty()) say("{}", notice);
  const bool ends = killed_ || !failures_.empty() || (stopping_ && newcomers_.empty());
  if (!failure || ends) return;
  failed_ranks_ = watchdog_.states();
  if (is_ours(failure->rank)) show_stack(rank_of(failure->rank));
  add_own(*failure);
}

/// Above the report, which has no room for it.
void Supervisor::show_stack(const Rank& rank) {
  const std::vector<std::string> functions = rank.alive ? native_stack(rank.pid) : std::vector<std::string>();
  if (!functions.empty())
    say("where rank {} stands, the innermost first:\n  {}\n", rank.number, fmt::join(functions, "\n  "));
}

void Supervisor::show_ranks() {
  look();
  say("trainer: where the ranks are\n{}", table_of(watchdog_.states()));
}

void Supervisor::hear_machines() {
  machines_.serve();
  for (Machine& machine : machines_.others()) {
    while (!machine.inbox.empty()) {
      const LinkMessage letter = std::move(machine.inbox.front());
      machine.inbox.pop_front();
      take_letter(machine, letter);
    }
    if (!machine.lost.empty() && !machine.ended) lose(machine);
    if (!machine.lost.empty()) machine.ended = true;
  }
}

void Supervisor::take_letter(Machine& machine, const LinkMessage& letter) {
  const auto text = [&](size_t i) { return i < letter.strings.size() ? letter.strings[i] : std::string(); };
  const bool from_host = machine.number == 0;
  if (letter.op == LinkOp::kCarry) {
    deliver(machine, letter);
  } else if (letter.op == LinkOp::kStop) {
    if (!from_host) machines_.send_all(letter);
    stop(letter.number == SIGINT ? SIGINT : SIGTERM);
    if (letter.code != 0) not_saved_ = "second signal: not saving";
    if (letter.code != 0) kill_all();
  } else if (letter.op == LinkOp::kGrow && from_host) {
    if (!stopping_) grow(text(0));
  } else if (letter.op == LinkOp::kRankFails && !from_host) {
    add(read_failure(letter, machine.name));
  } else if (letter.op == LinkOp::kFinished && !from_host) {
    machine.ended = true;
    const bool stopped = letter.code == kInterrupted || letter.code == kStopRequested;
    stopping_ |= stopped;
    if (stopped && not_saved_.empty()) not_saved_ = text(0);
    if (stopped ? !text(0).empty() : letter.code != kDone) end_soon();
  } else if (letter.op == LinkOp::kEnd && from_host) {
    verdict_ = read_outcome(letter);
    machine.ended = true;
    machine.line.close();
    kill_all();
  }
}

/// What a rank of a guest asks of the store, or what the store answers to one of ours.
void Supervisor::deliver(Machine& machine, const LinkMessage& carried) {
  const int64_t rank = carried.number;
  const bool known = rank >= 0 && rank < plan_.world_size();
  const int runs_on = known ? place_.machine_of(static_cast<int>(rank)) : -1;
  FrameReader frames;
  frames.append(carried.strings.empty() ? std::string_view() : carried.strings.front());
  std::optional<LinkMessage> message;
  try {
    message = frames.next();
  } catch (const PeerError&) {
  }
  if (!message || runs_on != (place_.is_host() ? machine.number : place_.machine)) {
    machine.lost = "it broke the protocol";
    return machine.line.close();
  }
  if (place_.is_host()) {
    std::vector<Store::Answer> answers;
    store_.handle(static_cast<int>(rank), *message, Clock::now(), answers);
    send(answers);
  } else if (Line& line = rank_of(static_cast<int>(rank)).line; line.is_open()) {
    line.send(*message);
  }
}

void Supervisor::lose(const Machine& machine) {
  if (killed_ || verdict_) return;
  add({.step = last_step(),
       .code = kPeerFailure,
       .message =
           fmt::format("{} was lost: {}\n  its power, its network, or its `trainer launch` failed; see its screen",
                       machine.name, machine.lost)});
}

/// Guest: lets the host know, once, how our ranks have ended.
void Supervisor::say_finished() {
  if (place_.is_host() || said_finished_ || verdict_) return;
  said_finished_ = true;
  machines_.send(0, {.op = LinkOp::kFinished, .code = outcome().code, .number = last_step(), .strings = {not_saved_}});
}

void Supervisor::fail(Rank& rank, Failure failure) {
  if (killed_) return;
  // A peer may have been lost because one has gone astray, or has not come for long: then that is the cause.
  if (failures_.empty()) {
    std::optional<Failure> seen = look();
    failed_ranks_ = watchdog_.states();
    if (!seen && failure.code == kPeerFailure) seen = late(failed_ranks_, patience_.watch.tell);
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

/// A failure on this machine; the host hears of it.
void Supervisor::add_own(Failure failure) {
  if (!place_.is_alone() && failure.rank >= 0) failure.machine = own_name();
  if (!place_.is_host()) machines_.send(0, to_message(failure));
  add(std::move(failure));
}

void Supervisor::add(Failure failure) {
  if (killed_) return;
  failures_.add(std::move(failure));
  end_soon();
}

/// Gives a better cause time to arrive: a lost peer may be another machine's, whose word takes longer.
void Supervisor::end_soon() {
  const bool only_lost_peers =
      !failures_.empty() && failures_.cause().code == kPeerFailure && failures_.cause().rank >= 0;
  const auto patience = only_lost_peers && !place_.is_alone() ? patience_.distant : patience_.cause;
  const Clock::time_point deadline = Clock::now() + patience;
  if (!cause_deadline_ || deadline < *cause_deadline_) cause_deadline_ = deadline;
}

void Supervisor::kill_all() {
  killed_ = true;
  for (const Rank& rank : ranks_) {
    if (rank.alive) kill_group(rank.pid);
  }
  if (place_.is_alone() || verdict_) return;
  if (place_.is_host()) return end_all();
  if (!verdict_deadline_) verdict_deadline_ = Clock::now() + patience_.distant;
}

/// Host: the run has ended, and this is how, on every machine.
void Supervisor::end_all() {
  verdict_ = judged();
  machines_.part(to_message(*verdict_));
}

std::string Supervisor::own_name() const {
  char host[65] = "";
  gethostname(host, sizeof(host) - 1);
  return fmt::format("machine {} ({}, {})", life_.machine, host, machines_.own_address());
}

Outcome Supervisor::outcome() const {
  const bool only_lost_peers = !failures_.empty() && failures_.cause().code == kPeerFailure;
  if (!failures_.empty() && !(only_lost_peers && !not_saved_.empty())) {
    const Failure& cause = failures_.cause();
    const bool names_rank = plan_.world_size() > 1 && !failures_.is_shared();
    return {.code = cause.code,
            .rank = names_rank ? cause.rank : -1,
            .step = cause.step,
            .phase = cause.phase,
            .message = cause.message,
            .ranks = failed_ranks_,
            .machine = names_rank ? cause.machine : ""};
  }
  const bool finished = std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.done; });
  return stopping_ && !(finished && not_saved_.empty()) ? stopped_outcome() : Outcome{};
}

/// The outcome, and whether another life follows.
Outcome Supervisor::judged() const {
  Outcome ended = outcome();
  life_.judge(ended);
  return ended;
}

Outcome Supervisor::stopped_outcome() const {
  if (!newcomers_.empty())
    return {.code = kStopRequested, .step = last_step(), .message = newcomers_ + " can take part", .grows = true};
  Outcome outcome;
  outcome.code = stop_signal_ == SIGINT ? kInterrupted : kStopRequested;
  outcome.step = last_step();
  outcome.message = fmt::format("stopped on {}", signal_name(stop_signal_ == 0 ? SIGTERM : stop_signal_));
  if (!not_saved_.empty()) outcome.message += "\n  " + not_saved_;
  return outcome;
}

int64_t Supervisor::last_step() const {
  int64_t step = -1;
  for (const Rank& rank : ranks_) step = std::max(step, rank.step);
  return step;
}

void Supervisor::show_last_words() const {
  for (int number : silent_) {
    const OutputTail& tail = ranks_[static_cast<size_t>(number - place_.first_rank())].last_words;
    if (tail.lines().empty()) continue;
    say("the last lines of rank {}:\n  {}\n", number, fmt::join(tail.lines(), "\n  "));
  }
}

}  // namespace

Outcome supervise(const config::Plan& plan, const Life& life, const RankProgram& program, const Patience& patience,
                  Machines& machines, SignalQueue& signals) {
  Supervisor supervisor(plan, life, program, patience, machines, signals);
  supervisor.start();
  const Outcome outcome = supervisor.watch();
  supervisor.show_last_words();
  return outcome;
}

}  // namespace trainer::launch
