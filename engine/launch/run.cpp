#include "engine/launch/run.h"

#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "engine/base/errors.h"
#include "engine/base/folder_lock.h"
#include "engine/checkpoint/leader_epoch.h"
#include "engine/config/machine/machines.h"
#include "engine/config/machine/started_rank.h"
#include "engine/launch/address.h"
#include "engine/launch/attempt_loop.h"
#include "engine/launch/company.h"
#include "engine/launch/farewell.h"
#include "engine/launch/held_notice.h"
#include "engine/launch/leadership.h"
#include "engine/launch/meeting_key.h"
#include "engine/launch/outcome.h"
#include "engine/launch/rank_assignment.h"
#include "engine/launch/rank_threads.h"
#include "engine/launch/run_status.h"
#include "engine/launch/screen.h"
#include "engine/launch/secret.h"
#include "engine/launch/status_server.h"
#include "engine/launch/succession.h"

namespace trainer::launch {
namespace {

/// 0 if the folder can't be read: whatever happens to it, the run has ended as it has.
int64_t newest_epoch(const std::string& output_dir) {
  try {
    return checkpoint::newest_epoch(output_dir);
  } catch (const MachineError&) {
    return 0;
  }
}

/// Reports the outcome; the leader also to files and servers. `leads`: null on a follower.
void report(const Outcome& outcome, const config::Config& config, Leadership* leads, const RunStatus& status,
            Output output) {
  const std::string& resume = config.checkpoint.resume_from_checkpoint;
  std::string newest, unreadable;
  try {
    newest = newest_checkpoint(config.output_dir);
  } catch (const MachineError& error) {
    unreadable = error.what();
  }
  const Kept kept{.checkpoint = newest,
                  .resumes = resume == "auto" || resume == "true",
                  .wrote_nothing = leads != nullptr && leads->wrote_nothing(),
                  .temporary = output == Output::kTemporary,
                  .elsewhere = leads == nullptr && (newest.empty() || !status.sees_checkpoints),
                  .replicated = status.replicated,
                  .unreadable = unreadable,
                  .leader_epoch = newest_epoch(config.output_dir)};
  if (leads != nullptr && !kept.wrote_nothing) leads->leave_files(outcome, kept);
  if (leads != nullptr) leads->end_tracking(outcome.code);
  if (outcome.code != kDone) say("{}", closing_block(outcome, kept, config.output_dir));
}

/// For machine 0. Null when another machine leads the elastic run, since machine 0 was lost: Note [Succession]. Errors:
/// those of Leadership.
std::unique_ptr<Leadership> lead_unless_succeeded(const config::Plan& plan) {
  try {
    return std::make_unique<Leadership>(plan);
  } catch (const FolderInUse&) {
    const auto leader = leader_of(plan.config.output_dir);
    if (!leader || leader->machine == 0 || config::usable_machines(plan.config).size() < 2) throw;
    return nullptr;
  }
}

std::vector<Address> status_addresses(const config::LoggingConfig& logging) {
  try {
    return resolve(logging.metrics_address, static_cast<int>(logging.metrics_port), "logging.metrics_address");
  } catch (const PeerError& error) {
    throw ConfigError("{}", error.what());
  }
}

/// The server of logging.metrics_port, if it is set. Errors: MachineError; ConfigError for an unknown address.
std::unique_ptr<StatusServer> serve_status(const config::LoggingConfig& logging, const RunStatus& status) {
  if (logging.metrics_port == 0) return nullptr;
  const std::vector<Address> addresses = status_addresses(logging);
  auto server =
      std::make_unique<StatusServer>(addresses, [&status](const std::string& path) { return status.respond(path); });
  const bool is_open =
      std::any_of(addresses.begin(), addresses.end(), [](const Address& address) { return !address.is_loopback(); });
  say("trainer: metrics at http://{}/metrics{}\n",
      endpoint_text(logging.metrics_address, static_cast<int>(logging.metrics_port)),
      is_open ? ", for everyone who can reach it" : "");
  return server;
}

Outcome run_alone(const Run& run, SignalQueue& signals) {
  bool prepared = !run.prepare;
  const auto no_door = [] { return nullptr; };
  return live(run, signals, no_door, [&](Attempts& attempts) {
    Machines none;
    const Preparation done = prepared ? Preparation{} : prepare_beside(run.prepare, none, signals);
    if (done.code != kDone) return unprepared(done);
    prepared = true;
    return supervise_attempt(
        run, attempts, attempts.terms(), true, random_bytes(kPeerKeyBytes), none, signals, [](Machines&) { return ""; },
        nullptr);
  });
}

}  // namespace

int run(const config::Plan& plan, const std::string& worker_path, const Patience& patience, const Prepare& prepare,
        const std::vector<std::string>& words, const std::vector<RankPlace>& places, Output output) {
  RankProgram program{{worker_path}, places};
  program.words.insert(program.words.end(), words.begin(), words.end());
  const RankAssignment place = rank_assignment_of(plan);
  signal(SIGUSR2, [](int) {});  // nothing can be saved while data is prepared; later the queue receives it
  RunStatus status{
      .world_size = static_cast<int>(plan.world_size()),
  };
  std::unique_ptr<StatusServer> server;
  std::optional<SignalQueue> signals;
  if (place.is_alone()) signals.emplace();  // first: a signal that ends the program leaves no half-made output folder
  const HeldNotice notice;
  std::unique_ptr<Leadership> leads;
  try {
    server = serve_status(plan.config.logging, status);
    status.is_served = server != nullptr;
    if (place.is_leader()) leads = lead_unless_succeeded(plan);
    status.is_leader = leads != nullptr;
    status.leader_epoch = leads ? leads->epoch() : 0;
  } catch (const Error& error) {
    if (const auto started = config::started_rank()) report_failed_start(*started, &plan, error);
    throw;
  }
  if (leads) {
    std::error_code ignored;  // the file may not exist
    std::filesystem::remove(std::filesystem::path(plan.config.output_dir) / "outcome.json", ignored);
  }
  say("{}", about_threads(plan.config.num_cpu_threads_per_process));
  const Run run{plan, program, patience, prepare, leads, status, server.get()};
  const auto finish = [&](const Outcome& outcome) {  // signals stay queued: a late one must not interrupt the report
    report(outcome, plan.config, leads.get(), status, output);
    return outcome.code;
  };
  if (!place.is_alone()) return run_in_company(run, finish);
  forget_secret();  // the ranks would inherit it
  if (server) signals->serve_too(*server);
  return finish(run_alone(run, *signals));
}

}  // namespace trainer::launch
