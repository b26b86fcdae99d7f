#include "engine/launch/attempt_loop.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/base/errors.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/config/machine/machines.h"
#include "engine/launch/failure.h"
#include "engine/launch/meeting.h"
#include "engine/launch/screen.h"

namespace trainer::launch {
namespace {

/// The plan of an attempt: for its machines, and resuming from the newest checkpoint that the run itself has saved.
config::Plan plan_of(const config::Plan& given, const Terms& terms) {
  config::Plan plan = config::plan_for_machines(given, terms.machines, terms.machine);
  if (terms.resumes) plan.config.checkpoint.resume_from_checkpoint = "auto";
  return plan;
}

/// Reports why another attempt begins, and pauses as required while serving `door`. Errors: StoppedBeforeStart.
void begin_next(Attempts& attempts, const Outcome& ended, Door* door, SignalQueue& signals, RunStatus& status) {
  const Clock::time_point until = Clock::now() + attempts.begin_next(ended);
  status.restarts = attempts.terms().restarts;
  say("{}trainer: {}\n", closing_line(ended), attempts.text(ended, status.sees_checkpoints));
  while (Clock::now() < until) {
    std::vector<pollfd> events;
    if (door != nullptr) door->serve();
    if (door != nullptr) door->add_events(events);
    wait_for(std::move(events), door != nullptr ? std::min(until, door->next_deadline()) : until, signals);
  }
}

}  // namespace

Outcome unprepared(const Preparation& prepared) {
  return {.code = prepared.code, .phase = "preparing the data", .message = prepared.message};
}

Outcome live(const Run& run, SignalQueue& signals, const std::function<Door*()>& door,
             const std::function<Outcome(Attempts&)>& one) {
  Attempts attempts(run.plan.config, run.patience.pause);
  try {
    for (;;) {
      Outcome ended;
      try {
        ended = one(attempts);
      } catch (const EndedBefore& before) {
        ended = before.outcome;
      }
      try {
        if (const std::string why = run.leads ? run.leads->superseded() : ""; !why.empty())
          return {.code = kMachineFailure, .step = ended.step, .message = why};
        if (!ended.again) return ended;
        begin_next(attempts, ended, door(), signals, run.status);
      } catch (const MachineError& error) {  // output_dir can't be read: what ended the attempt is said all the same
        const std::string why = error.what();
        if (ended.again)
          ended.message = with_second_line(ended.message, "not restarted: " + why.substr(0, why.find('\n')));
        ended.again = false;
        return ended;
      }
    }
  } catch (const StoppedBeforeStart& stopped) {
    return {.code = 128 + stopped.signal,
            .message = fmt::format("stopped on {}, before the ranks were started", signal_name(stopped.signal))};
  }
}

Outcome supervise_attempt(const Run& run, Attempts& attempts, const Terms& terms, bool shares_folder,
                          const std::string& peer_key, Machines& machines, SignalQueue& signals,
                          const std::function<std::string(Machines&)>& why_lost, Replication* replication) {
  const Attempt attempt{.terms = terms,
                        .machine = static_cast<int>(run.plan.config.machine_rank),
                        .judge =
                            [&](Outcome& outcome, const std::string& why_not) {
                              attempts.judge(outcome, why_not.empty() ? why_lost(machines) : why_not);
                            },
                        .shares_folder = shares_folder,
                        .owner = run.leads ? run.leads->owner().name() : "",
                        .peer_key = peer_key,
                        .replication = replication};
  if (run.leads) {
    run.leads->owner().require();
    checkpoint::recover_interrupted(run.plan.config.output_dir);
  }
  const config::Plan plan = plan_of(run.plan, terms);
  run.status.world_size = static_cast<int>(plan.world_size());
  run.status.restarts = terms.restarts;
  return supervise(plan, attempt, run.program, run.patience, machines, signals, run.status);
}

}  // namespace trainer::launch
