// Signals: those that stop the run, and those that ask for a checkpoint or a report.
#include <algorithm>
#include <csignal>

#include <fmt/format.h>

#include "engine/launch/screen.h"
#include "engine/launch/supervision.h"

namespace trainer::launch {
namespace {

double seconds_of(std::chrono::milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

void Supervision::take_signals() {
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
void Supervision::ask_to_save() {
  const auto ready = [](const Rank& rank) { return rank.alive && rank.step >= 0; };
  const auto found = std::find_if(ranks_.begin(), ranks_.end(), ready);
  if (!save_asked_ || found == ranks_.end()) return;
  save_asked_ = false;
  kill(found->pid, SIGUSR2);
  say("trainer: saving after this step\n");
}

/// Forwards a signal that this launcher received to every machine. See Note [Stop signals].
void Supervision::stop_all(int signal) {
  const bool repeated = stop_signals_.is_repeated(signal, Clock::now());
  if (!repeated && ending_.is_asked()) return;
  machines_.send_all({.op = LinkOp::kStop, .code = repeated ? 1 : 0, .number = signal});
  stop(signal);
  if (repeated) stop_at_once();
}

/// A second is left to stop the ranks and to report.
std::chrono::milliseconds Supervision::grace_before_kill() const {
  return std::max(patience_.kill_wait - std::chrono::milliseconds(1000), patience_.kill_wait / 2);
}

void Supervision::stop_at_once() {
  ending_.was_not_saved("second signal: not saving");
  kill_all();
}

void Supervision::stop(int signal) {
  if (ending_.is_asked()) return;
  // SLURM's SIGTERM is followed by SIGKILL: the run ends before it, to report how. Its other signals aren't.
  is_cut_ = signal == SIGTERM && patience_.kill_wait.count() > 0 && grace_before_kill() < ending_.grace();
  if (is_cut_) ending_.limit_grace(grace_before_kill());
  ending_.stop(signal);
  if (ending_.has_failed() || ending_.is_killed()) return;  // the attempt is ending anyway, and none follows
  ranks_.signal(ending_.signal_for_ranks());
  const std::string line = fmt::format(
      "trainer: {}: {}{}{}\n", signal_name(signal),
      plan_.config.checkpoint.save_on_signal ? "saving, then stopping" : "stopping after this step",
      StopSignals::can_repeat(signal) ? " (once more to stop at once)" : "",
      is_cut_ ? fmt::format("; SLURM kills the job within {:g} s (KillWait)", seconds_of(patience_.kill_wait)) : "");
  signal == SIGINT ? say_below(line) : say("{}", line);
}

/// Of a save that took longer than the run had left.
std::string Supervision::why_abandoned() const {
  if (!is_cut_)
    return fmt::format("save abandoned: not finished after {:g} s (checkpoint.grace_seconds)",
                       plan_.config.checkpoint.grace_seconds);
  return fmt::format(
      "save abandoned after {:g} s: SLURM kills a job {:g} s after SIGTERM (KillWait)\n  "
      "`scancel --signal=USR1` and `sbatch --signal=USR1@N` leave it more time",
      seconds_of(ending_.grace()), seconds_of(patience_.kill_wait));
}

void Supervision::kill_all() {
  ending_.kill();
  ranks_.kill_all();
  if (assignment_.is_alone() || verdict_) return;
  if (assignment_.is_leader()) return end_all();
  if (!verdict_deadline_) verdict_deadline_ = Clock::now() + patience_.distant;
}

}  // namespace trainer::launch
