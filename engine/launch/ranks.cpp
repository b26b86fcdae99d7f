#include "engine/launch/ranks.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include <fmt/ranges.h>

#include "engine/launch/held_process.h"
#include "engine/launch/native_stack.h"
#include "engine/launch/screen.h"

namespace trainer::launch {

void Rank::read_errors() {
  char bytes[4096];
  if (!errors) return;
  pollfd event{errors.get(), POLLIN, 0};
  while (poll(&event, 1, 0) == 1) {
    ssize_t count = read(errors.get(), bytes, sizeof(bytes));
    if (count <= 0) return errors.reset();
    last_words.append({bytes, static_cast<size_t>(count)});
    if (alive) return;
  }
}

Ranks::~Ranks() {
  kill_all();
  for (const Rank& rank : ranks_) {
    const Clock::time_point end = *killed_at_ + kReapPatience;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    if (rank.alive) reap_within(rank.pid, left);
  }
}

void Ranks::start(int number, const Command& command, const sigset_t& mask) {
  Process process = start_process(command, mask);
  Rank& rank = ranks_.emplace_back();
  rank.number = number;
  rank.pid = process.pid;
  rank.line = Line(std::move(process.link));
  rank.errors = std::move(process.errors);
}

Rank& Ranks::numbered(int number) {
  return ranks_.at(static_cast<size_t>(number - ranks_.front().number));
}

bool Ranks::any_alive() const {
  return std::any_of(begin(), end(), [](const Rank& rank) { return rank.alive; });
}

bool Ranks::all_done() const {
  return std::all_of(begin(), end(), [](const Rank& rank) { return rank.done; });
}

int64_t Ranks::last_step() const {
  int64_t step = -1;
  for (const Rank& rank : ranks_) step = std::max(step, rank.step);
  return step;
}

void Ranks::add_events(std::vector<pollfd>& events) const {
  for (const Rank& rank : ranks_) {
    if (rank.line.is_open()) {
      const bool writes = rank.line.has_unsent();
      events.push_back({rank.line.fd(), static_cast<short>(writes ? POLLIN | POLLOUT : POLLIN), 0});
    }
    if (rank.errors) events.push_back({rank.errors.get(), POLLIN, 0});
  }
}

std::vector<Watchdog::Subject> Ranks::subjects() const {
  std::vector<Watchdog::Subject> subjects;
  for (const Rank& rank : ranks_) subjects.push_back({rank.pid, rank.alive && !rank.done});
  return subjects;
}

bool Ranks::has_ended(Rank& rank, int& status) {
  if (!rank.alive) return false;
  siginfo_t info{};
  int looked = 0;
  do looked = waitid(P_PID, static_cast<id_t>(rank.pid), &info, WEXITED | WNOHANG | WNOWAIT);
  while (looked != 0 && errno == EINTR);
  if (looked != 0 || info.si_pid == 0) return false;
  kill_group(rank.pid);  // what it started; before the wait below, after which the id may be reused
  status = wait_for_end(rank.pid);
  rank.alive = false;
  return true;
}

void Ranks::signal(int signal) const {
  for (const Rank& rank : ranks_) {
    if (rank.alive) kill(rank.pid, signal);
  }
}

std::optional<Clock::time_point> Ranks::give_up_at() const {
  if (!killed_at_ || !any_alive()) return std::nullopt;
  return *killed_at_ + kReapPatience;
}

void Ranks::give_up() {
  for (Rank& rank : ranks_) {
    if (!rank.alive) continue;
    say("trainer: rank {} (process {}) was killed but does not end: {}\n  the launcher no longer waits for it; it ends "
        "when the kernel lets go of it, and may hold a GPU until then\n",
        rank.number, rank.pid, what_holds(rank.pid));
    rank.alive = false;
    rank.line.close();
    rank.errors.reset();
  }
}

void Ranks::kill_all() {
  if (!killed_at_) killed_at_ = Clock::now();
  for (const Rank& rank : ranks_) {
    if (rank.alive) kill_group(rank.pid);
  }
}

void Ranks::show_last_words() const {
  for (const Rank& rank : ranks_) {
    if (!rank.silent || rank.last_words.lines().empty()) continue;
    say("the last lines of rank {}:\n  {}\n", rank.number, fmt::join(rank.last_words.lines(), "\n  "));
  }
}

void Ranks::show_stack(const Rank& rank) {
  const std::vector<std::string> functions = rank.alive ? native_stack(rank.pid) : std::vector<std::string>();
  if (!functions.empty())
    say("the stack of rank {}, innermost first:\n  {}\n", rank.number, fmt::join(functions, "\n  "));
}

}  // namespace trainer::launch
