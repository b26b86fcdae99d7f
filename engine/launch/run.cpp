#include "engine/launch/run.h"

#include <signal.h>

#include <filesystem>
#include <functional>
#include <optional>

#include "engine/base/errors.h"
#include "engine/base/folder_lock.h"
#include "engine/launch/failure.h"
#include "engine/launch/lives.h"
#include "engine/launch/meeting.h"
#include "engine/launch/outcome.h"
#include "engine/launch/screen.h"
#include "engine/launch/secret.h"

namespace trainer::launch {
namespace {

/// Tells the world how it ended. What can't be written is only warned of: it must not hide the cause. Without `output`
/// another machine writes.
void report(const Outcome& outcome, const config::Config& config, const FolderLock* output) {
  const std::string& resume = config.checkpoint.resume_from_checkpoint;
  Kept kept{.checkpoint = newest_checkpoint(config.output_dir),
            .resumes = resume == "auto" || resume == "true",
            .wrote_nothing = output != nullptr && !output->folder_is_used()};
  try {
    if (output != nullptr && !kept.wrote_nothing) write_outcome(outcome, kept, config.output_dir);
  } catch (const MachineError& error) {
    say("{}\n", error.what());
  }
  if (outcome.code != kDone) say("{}", closing_block(outcome, kept, config.output_dir));
}

Outcome unprepared(const Preparation& prepared) {
  return {.code = prepared.code, .phase = "preparing the data", .message = prepared.message};
}

/// What a run consists of on this machine.
struct Run {
  const config::Plan& plan;
  const RankProgram& program;
  const Patience& patience;
  const Prepare& prepare;
};

/// Says why another life begins, and waits for as long as `pause`. Errors: StoppedBeforeStart.
void begin_next(Lives& lives, const Outcome& ended, SignalQueue& signals) {
  const Clock::time_point until = Clock::now() + lives.begin_next(ended);
  say("{}trainer: {}\n", closing_line(ended), lives.text());
  while (Clock::now() < until) wait_for({}, until, signals);
}

using OneLife = std::function<Outcome(const config::Plan& plan, const Life& life)>;

/// Life after life, as long as one follows.
Outcome live(const Run& run, SignalQueue& signals, const OneLife& one) {
  Lives lives(run.plan.config, run.patience.pause);
  try {
    for (;;) {
      const config::Plan plan = lives.plan(run.plan);
      const Outcome ended =
          one(plan, {.number = lives.number(), .judge = [&](Outcome& outcome) { lives.judge(outcome); }});
      if (!ended.again) return ended;
      begin_next(lives, ended, signals);
    }
  } catch (const StoppedBeforeStart& stopped) {
    return {.code = 128 + stopped.signal,
            .message = fmt::format("stopped on {}, before the ranks were started", signal_name(stopped.signal))};
  }
}

Outcome run_alone(const Run& run) {
  const Preparation prepared = run.prepare ? run.prepare() : Preparation{};
  if (prepared.code != kDone) return unprepared(prepared);
  SignalQueue signals;
  return live(run, signals, [&](const config::Plan& plan, const Life& life) {
    Machines none;
    return supervise(plan, life, run.program, run.patience, none, signals);
  });
}

/// A life among other machines, from their meeting on.
Outcome live_with_others(const Run& run, const config::Plan& plan, const Life& life, const Appointment& appointment,
                         SignalQueue& signals) {
  Machines machines = meet(appointment, introduce(run.plan, run.program.words.front()), signals);
  check_shared_folder(plan.config.output_dir, appointment.place, machines, signals);
  const Preparation prepared = prepare_together(
      run.prepare ? run.prepare : [] { return Preparation{}; }, appointment.place, machines, signals);
  if (prepared.code != kDone) return unprepared(prepared);
  return supervise(plan, life, run.program, run.patience, machines, signals);
}

Outcome run_with_others(const Run& run) {
  const config::Config& config = run.plan.config;
  const Appointment appointment{
      .place = place_of(run.plan),
      .host = config.main_process_ip,
      .port = config.main_process_port != 0 ? static_cast<int>(config.main_process_port) : kDefaultPort,
      .patience = run.patience.join,
      .silence = run.patience.silence,
      .secret = take_secret()};
  SignalQueue signals;
  return live(run, signals, [&](const config::Plan& plan, const Life& life) -> Outcome {
    try {
      return live_with_others(run, plan, life, appointment, signals);
    } catch (const Error& error) {
      if (error.code() == kUsageFailure) throw;  // a list of problems, which is shown whole
      return {.code = error.code(), .message = error.what()};
    }
  });
}

}  // namespace

int run(const config::Plan& plan, const std::string& worker_path, const Patience& patience, const Prepare& prepare,
        const std::vector<std::string>& words, const std::vector<cpu_set_t>& cpus) {
  RankProgram program{{worker_path}, cpus};
  program.words.insert(program.words.end(), words.begin(), words.end());
  const Place place = place_of(plan);
  signal(SIGUSR2, [](int) {});  // there is nothing to save while data is prepared; the queue takes it later
  std::optional<FolderLock> output;
  if (place.is_host()) {
    output.emplace(plan.config.output_dir);
    std::error_code ignored;  // there may be none
    std::filesystem::remove(std::filesystem::path(plan.config.output_dir) / "outcome.json", ignored);
  }
  const Run run{plan, program, patience, prepare};
  const Outcome outcome = place.is_alone() ? run_alone(run) : run_with_others(run);
  report(outcome, plan.config, output ? &*output : nullptr);
  return outcome.code;
}

}  // namespace trainer::launch
