#include "engine/launch/supervisor.h"

#include <poll.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <vector>

#include <fmt/ranges.h>

#include "engine/base/errors.h"
#include "engine/base/folder_lock.h"
#include "engine/launch/failure.h"
#include "engine/launch/outcome.h"
#include "engine/launch/output_tail.h"
#include "engine/launch/process.h"
#include "engine/launch/rank_line.h"
#include "engine/launch/signals.h"
#include "engine/launch/store.h"
#include "engine/launch/watchdog.h"

namespace trainer::launch {
namespace {

/// A line of ours on the screen, over an unfinished progress bar.
void say(const std::string& text) {
  fmt::print(stderr, "{}{}", isatty(STDERR_FILENO) ? "\r\x1b[K" : "", text);
}

/// What the supervisor knows of one rank.
struct Rank {
  int number = 0;
  pid_t pid = 0;
  bool alive = true;
  bool done = false;      // it reported the end of the run
  bool reported = false;  // it reported a failure
  int64_t step = -1;
  std::string phase;
  RankLine line;
  FileDescriptor errors;
  OutputTail last_words;
};

class Supervisor {
 public:
  Supervisor(const config::Plan& plan, const std::string& worker_path, const std::vector<std::string>& words,
             const Patience& patience)
      : plan_(plan),
        plan_text_(config::to_text(plan)),
        words_{worker_path},
        patience_(patience),
        watchdog_(0, static_cast<int>(plan.world_size()), static_cast<int>(plan.world_size()), patience.watch) {
    words_.insert(words_.end(), words.begin(), words.end());
  }
  ~Supervisor();

  void start();
  Outcome watch();
  /// What ranks that died silently wrote to standard error.
  void show_last_words() const;

 private:
  Command command(int rank) const;
  void wait_for_events();
  int milliseconds_to_next_deadline() const;
  void take_signals();
  void stop(int signal);
  void pass_deadlines();

  void reap();
  void bury(Rank& rank, int status);
  void read_errors(Rank& rank);
  void read_line(Rank& rank);
  void take_message(Rank& rank, const LinkMessage& message);
  void send(const std::vector<Store::Answer>& answers);

  std::optional<Failure> look();
  void look_after_ranks();
  void show_ranks();

  void fail(Rank& rank, Failure failure);
  void end_soon();
  void kill_all();
  Outcome outcome() const;
  Outcome stopped_outcome() const;
  int64_t last_step() const;
  bool any_alive() const {
    return std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.alive; });
  }

  const config::Plan& plan_;
  const std::string plan_text_;
  std::vector<std::string> words_;  // the program of a rank and its arguments
  const Patience patience_;
  SignalQueue signals_;
  std::vector<Rank> ranks_;
  Store store_;
  Watchdog watchdog_;
  Failures failures_;
  RankStates failed_ranks_;  // where all were when the first failure became known
  std::vector<int> silent_;  // ranks that died without a report, before we killed any

  // Why and when the ranks have to end.
  bool stopping_ = false;  // somebody asked the run to stop
  int stop_signal_ = 0;    // the signal that asked
  std::string not_saved_;  // why a stop came without a save; "" while it may have
  bool killed_ = false;    // the rest of the deaths are our doing
  std::optional<Clock::time_point> stop_deadline_;
  std::optional<Clock::time_point> cause_deadline_;
};

Supervisor::~Supervisor() {
  kill_all();
  for (const Rank& rank : ranks_) {
    if (rank.alive) waitpid(rank.pid, nullptr, 0);
  }
}

Command Supervisor::command(int rank) const {
  const std::string threads = std::to_string(std::max<int64_t>(1, plan_.config.num_cpu_threads_per_process));
  const std::string number = std::to_string(rank);
  const std::string world_size = std::to_string(plan_.world_size());
  return {.words = words_,
          .environment = {{"RANK", number},
                          {"LOCAL_RANK", number},
                          {"WORLD_SIZE", world_size},
                          {"LOCAL_WORLD_SIZE", world_size},
                          {"OMP_NUM_THREADS", threads},
                          {"MKL_NUM_THREADS", threads},
                          {kBoardVariable, std::to_string(watchdog_.board_fd())}},
          .on_terminal = rank == 0,
          .inherited = watchdog_.board_fd()};
}

void Supervisor::start() {
  require(plan_.world_size() >= 1, "a plan for {} processes", plan_.world_size());
  ranks_.reserve(static_cast<size_t>(plan_.world_size()));
  for (int number = 0; number < plan_.world_size(); ++number) {
    Process process = start_process(command(number), signals_.mask_before());
    Rank& rank = ranks_.emplace_back();
    rank.number = number;
    rank.pid = process.pid;
    rank.line = RankLine(std::move(process.link));
    rank.errors = std::move(process.errors);
  }
}

Outcome Supervisor::watch() {
  while (any_alive()) {
    wait_for_events();
    take_signals();
    for (Rank& rank : ranks_) {
      if (!rank.alive) continue;
      rank.line.flush();
      read_line(rank);
      read_errors(rank);
    }
    pass_deadlines();
  }
  return outcome();
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
  if (poll(events.data(), events.size(), milliseconds_to_next_deadline()) < 0 && errno != EINTR) {
    throw MachineError("cannot wait for the ranks: {}", std::strerror(errno));
  }
}

int Supervisor::milliseconds_to_next_deadline() const {
  Clock::time_point next = watchdog_.next_look();
  for (const auto& deadline : {store_.next_deadline(), stop_deadline_, cause_deadline_}) {
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
    else
      stop(signal);
  }
  if (child_ended) reap();
}

void Supervisor::stop(int signal) {
  if (stop_signal_ != 0) {
    if (not_saved_.empty()) not_saved_ = "second signal: not saving";
    return kill_all();
  }
  stop_signal_ = signal;
  stopping_ = true;
  stop_deadline_ = Clock::now() + patience_.stop;
  if (!failures_.empty()) return;  // the run is ending anyway
  say(fmt::format("trainer: {}: {} (once more to stop at once)\n", signal_name(signal),
                  plan_.config.checkpoint.save_on_signal ? "saving, then stopping" : "stopping after this step"));
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
    const auto seconds = std::chrono::duration<double>(patience_.stop).count();
    if (not_saved_.empty()) not_saved_ = fmt::format("save abandoned: not finished after {:g} s", seconds);
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
    if (!stopping_) stop_deadline_ = Clock::now() + patience_.stop;
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
      std::vector<Store::Answer> answers;
      store_.handle(rank.number, message, Clock::now(), answers);
      return send(answers);
  }
}

void Supervisor::send(const std::vector<Store::Answer>& answers) {
  for (const Store::Answer& answer : answers) {
    RankLine& line = ranks_[static_cast<size_t>(answer.rank)].line;
    if (line.is_open()) line.send(answer.message);
  }
}

std::optional<Failure> Supervisor::look() {
  std::vector<Watchdog::Subject> subjects;
  for (const Rank& rank : ranks_) subjects.push_back({rank.pid, rank.alive && !rank.done});
  return watchdog_.look(subjects);
}

void Supervisor::look_after_ranks() {
  const std::optional<Failure> failure = look();
  if (const std::string notice = watchdog_.take_notice(); !notice.empty()) say(notice);
  if (!failure || killed_ || stopping_ || !failures_.empty()) return;  // it is ending anyway
  failed_ranks_ = watchdog_.states();
  failures_.add(*failure);
  end_soon();
}

void Supervisor::show_ranks() {
  look();
  say(fmt::format("trainer: where the ranks are\n{}", table_of(watchdog_.states())));
}

void Supervisor::fail(Rank& rank, Failure failure) {
  if (killed_) return;
  // A lost peer may have been lost because one has gone astray: then that is the cause.
  if (failures_.empty()) {
    const std::optional<Failure> seen = look();
    failed_ranks_ = watchdog_.states();
    if (seen && seen->code == kInternalFailure) failures_.add(*seen);
  }
  const RankState* const state = watchdog_.state(rank.number);
  if (const bool knows_why = rank.reported && failure.code != kPeerFailure; !knows_why && state->beats > 0)
    failure.message += fmt::format("\n  it {}", doing_of(*state, Tense::kPast));
  failure.rank = rank.number;
  failure.step = rank.step;
  failure.phase = rank.phase;
  failures_.add(std::move(failure));
  end_soon();
}

void Supervisor::end_soon() {
  if (!cause_deadline_) cause_deadline_ = Clock::now() + patience_.cause;
}

void Supervisor::kill_all() {
  killed_ = true;
  for (const Rank& rank : ranks_) {
    if (rank.alive) kill_group(rank.pid);
  }
}

Outcome Supervisor::outcome() const {
  const bool only_lost_peers = !failures_.empty() && failures_.cause().code == kPeerFailure;
  if (!failures_.empty() && !(only_lost_peers && !not_saved_.empty())) {
    const Failure& cause = failures_.cause();
    const bool names_rank = plan_.world_size() > 1 && !failures_.is_shared();
    return {cause.code, names_rank ? cause.rank : -1, cause.step, cause.phase, cause.message, failed_ranks_};
  }
  const bool finished = std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.done; });
  return stopping_ && !(finished && not_saved_.empty()) ? stopped_outcome() : Outcome{};
}

Outcome Supervisor::stopped_outcome() const {
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
    const OutputTail& tail = ranks_[static_cast<size_t>(number)].last_words;
    if (tail.lines().empty()) continue;
    say(fmt::format("the last lines of rank {}:\n  {}\n", number, fmt::join(tail.lines(), "\n  ")));
  }
}

/// Tells the world how it ended. What can't be written is only warned of: it must not hide the cause.
void report(const Outcome& outcome, const config::Config& config, const FolderLock& output) {
  const std::string& resume = config.checkpoint.resume_from_checkpoint;
  Kept kept{.checkpoint = newest_checkpoint(config.output_dir),
            .resumes = resume == "auto" || resume == "true",
            .wrote_nothing = !output.folder_is_used()};
  try {
    if (!kept.wrote_nothing) write_outcome(outcome, kept, config.output_dir);
  } catch (const MachineError& error) {
    say(fmt::format("{}\n", error.what()));
  }
  if (outcome.code != kDone) say(closing_block(outcome, kept, config.output_dir));
}

}  // namespace

int run(const config::Plan& plan, const std::string& worker_path, const Patience& patience, const Prepare& prepare,
        const std::vector<std::string>& words) {
  FolderLock output(plan.config.output_dir);
  std::error_code ignored;  // there may be none
  std::filesystem::remove(std::filesystem::path(plan.config.output_dir) / "outcome.json", ignored);
  if (const Preparation prepared = prepare ? prepare() : Preparation{}; prepared.code != kDone) {
    const Outcome failed{prepared.code, -1, -1, "preparing the data", prepared.message};
    report(failed, plan.config, output);
    return failed.code;
  }
  Supervisor supervisor(plan, worker_path, words, patience);
  supervisor.start();
  const Outcome outcome = supervisor.watch();
  supervisor.show_last_words();
  report(outcome, plan.config, output);
  return outcome.code;
}

}  // namespace trainer::launch
