#include "engine/launch/run.h"

#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>

#include "engine/base/errors.h"
#include "engine/base/folder_lock.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/checkpoint/signing_key.h"
#include "engine/config/machine/machines.h"
#include "engine/config/machine/started_rank.h"
#include "engine/config/names.h"
#include "engine/launch/address.h"
#include "engine/launch/attempts.h"
#include "engine/launch/failure.h"
#include "engine/launch/farewell.h"
#include "engine/launch/follower.h"
#include "engine/launch/leader.h"
#include "engine/launch/meeting.h"
#include "engine/launch/meeting_key.h"
#include "engine/launch/messages.h"
#include "engine/launch/outcome.h"
#include "engine/launch/rank_assignment.h"
#include "engine/launch/rank_threads.h"
#include "engine/launch/run_status.h"
#include "engine/launch/screen.h"
#include "engine/launch/secret.h"
#include "engine/launch/slurm.h"
#include "engine/launch/status_server.h"
#include "engine/launch/tracking.h"
#include "engine/report/model_card.h"
#include "engine/report/report.h"

namespace trainer::launch {
namespace {

/// The output folder's lock and owner, on the machine that writes into it.
struct Output {
  FolderLock lock;
  FolderOwner owner;

  explicit Output(const std::string& folder) : lock(folder), owner(folder, lock.who()) {}
};

/// Before anything is started or written. Errors: ConfigError.
void check_keys(const config::Plan& plan) {
  try {
    checkpoint::check_keys(plan.config.checkpoint.sign, plan.config.checkpoint.trusted_key);
  } catch (const ConfigError& error) {
    throw ConfigError("{}", config::located(plan, error.what()));
  }
}

/// Writes a file about the run. Whatever happens to it, the run has ended as it has.
void leave(const char* name, const std::function<void()>& write) {
  try {
    write();
  } catch (const std::exception& error) {
    say("trainer: no {} was written: {}\n", name, error.what());
  }
}

/// The update whose weights a finished run has saved.
int64_t saved_step(const config::Config& config) {
  const config::CheckpointConfig& options = config.checkpoint;
  if (options.load_best_model_at_end && options.metric_for_best_model != "none") {
    const auto checkpoints = checkpoint::find_checkpoints(config.output_dir);
    const checkpoint::Found* const best = checkpoint::best_checkpoint(checkpoints, options.metric_for_best_model);
    if (best != nullptr) return best->step;
  }
  return std::numeric_limits<int64_t>::max();
}

/// outcome.json and, unless no update was logged, report.html and, beside a saved model, its card. Errors:
/// MachineError, PeerError when the folder isn't known to be this run's.
void leave_files(const Outcome& outcome, const Kept& kept, const config::Config& config, const Output& output) {
  output.owner.require();
  leave("outcome.json", [&] { write_outcome(outcome, kept, config.output_dir); });
  const bool has_updates = outcome.code == kDone || outcome.step >= 0;
  std::error_code ignored;
  if (!has_updates || !std::filesystem::exists(config.output_dir + "/metrics.jsonl", ignored)) return;
  leave("report.html", [&] { report::write_report(config.output_dir); });
  if (outcome.code == kDone)
    leave("README.md", [&] { report::write_model_card(config.output_dir, config.output_dir, saved_step(config)); });
}

/// Reports the outcome. A failed write is only a warning: it must not hide the cause. Without `output` another machine
/// writes, and `tracking` is null.
void report(const Outcome& outcome, const config::Config& config, const Output* output, Tracking* tracking) {
  const std::string& resume = config.checkpoint.resume_from_checkpoint;
  Kept kept{.checkpoint = newest_checkpoint(config.output_dir),
            .resumes = resume == "auto" || resume == "true",
            .wrote_nothing = output != nullptr && !output->lock.folder_is_used(),
            .elsewhere = output == nullptr};
  try {
    if (output != nullptr && !kept.wrote_nothing) leave_files(outcome, kept, config, *output);
  } catch (const PeerError&) {  // the folder was taken over, which is the outcome itself
  } catch (const MachineError& error) {
    say("trainer: no outcome.json and no report.html were written: {}\n", error.what());
  }
  if (tracking != nullptr) tracking->end(outcome.code);
  if (outcome.code != kDone) say("{}", closing_block(outcome, kept, config.output_dir));
}

Outcome unprepared(const Preparation& prepared) {
  return {.code = prepared.code, .phase = "preparing the data", .message = prepared.message};
}

/// The inputs of a run on this machine.
struct Run {
  const config::Plan& plan;
  const RankProgram& program;
  const Patience& patience;
  const Prepare& prepare;
  const Output* output;  // null: another machine owns it
  RunStatus& status;
  StatusServer* server;  // null: none is wanted
};

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

/// What started this launcher, if it starts each one only once; else "".
std::string single_starter() {
  const std::optional<config::StartedRank> started = config::started_rank();
  return started && started->starts_once() ? started->by : "";
}

/// Why no attempt can follow: too few machines are left, and what started the launchers doesn't start them again. "" if
/// one can.
std::string why_not_again(Machines& machines, const std::vector<int>& sizes, const std::string& starter) {
  const std::vector<Machine>& others = machines.others();
  const auto gone =
      std::count_if(others.begin(), others.end(), [](const Machine& machine) { return machine.is_gone(); });
  if (starter.empty() || gone == 0) return "";
  const bool lost_leader = others.front().number == 0 && others.front().is_gone();
  if (!lost_leader && std::ssize(others) + 1 - gone >= sizes.front()) return "";
  return fmt::format("{} does not restart it, so max_restarts has no effect; start the job again to continue", starter);
}

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
  say("{}trainer: {}\n", closing_line(ended), attempts.text(ended));
  while (Clock::now() < until) {
    std::vector<pollfd> events;
    if (door != nullptr) door->serve();
    if (door != nullptr) door->add_events(events);
    wait_for(std::move(events), door != nullptr ? std::min(until, door->next_deadline()) : until, signals);
  }
}

/// Runs attempts until none follows.
Outcome live(const Run& run, SignalQueue& signals, Door* door, const std::function<Outcome(Attempts&)>& one) {
  Attempts attempts(run.plan.config, run.patience.pause);
  try {
    for (;;) {
      Outcome ended;
      try {
        ended = one(attempts);
      } catch (const EndedBefore& before) {
        ended = before.outcome;
      }
      if (const std::string why = run.output != nullptr ? run.output->owner.taken_over() : ""; !why.empty())
        return {.code = kMachineFailure, .step = ended.step, .message = why};
      if (!ended.again) return ended;
      begin_next(attempts, ended, door, signals, run.status);
    }
  } catch (const StoppedBeforeStart& stopped) {
    return {.code = 128 + stopped.signal,
            .message = fmt::format("stopped on {}, before the ranks were started", signal_name(stopped.signal))};
  }
}

/// Starts the ranks of an attempt, and watches them until they end.
Outcome supervise_attempt(const Run& run, Attempts& attempts, const Terms& terms, bool shares_folder,
                          const std::string& peer_key, Machines& machines, SignalQueue& signals,
                          const std::function<std::string(Machines&)>& why_lost) {
  const Attempt attempt{.terms = terms,
                        .machine = static_cast<int>(run.plan.config.machine_rank),
                        .judge = [&](Outcome& outcome) { attempts.judge(outcome, why_lost(machines)); },
                        .shares_folder = shares_folder,
                        .owner = run.output != nullptr ? run.output->owner.name() : "",
                        .peer_key = peer_key};
  if (run.output != nullptr) {
    run.output->owner.require();
    checkpoint::recover_replaced(run.plan.config.output_dir);
  }
  const config::Plan plan = plan_of(run.plan, terms);
  run.status.world_size = static_cast<int>(plan.world_size());
  run.status.restarts = terms.restarts;
  return supervise(plan, attempt, run.program, run.patience, machines, signals, run.status);
}

Outcome run_alone(const Run& run, SignalQueue& signals) {
  bool prepared = !run.prepare;
  return live(run, signals, nullptr, [&](Attempts& attempts) {
    Machines none;
    const Preparation done = prepared ? Preparation{} : prepare_beside(run.prepare, none, signals);
    if (done.code != kDone) return unprepared(done);
    prepared = true;
    return supervise_attempt(run, attempts, attempts.terms(), true, random_bytes(kPeerKeyBytes), none, signals,
                             [](Machines&) { return ""; });
  });
}

/// Without a secret, ranks have no key; only a user who asked for one must know. Errors: ConfigError.
void refuse_transport_without_key(const config::Plan& plan) {
  constexpr const char* kOption = "training.gloo_transport";
  const config::GlooTransport transport = plan.config.training.gloo_transport;
  const auto origin = plan.origins.find(kOption);
  const bool asked = origin != plan.origins.end() && origin->second != "default";
  if (transport == config::GlooTransport::kTcp || !asked) return;
  throw ConfigError(
      "{}: {} is {}, but the machines of this run have no secret, from which their ranks could derive a key\n"
      "  create one, once: trainer launch --new_secret trainer-secret\n"
      "  copy the file to every machine, and set TRAINER_SECRET_FILE=trainer-secret there; or set {}: tcp",
      origin->second, kOption, config::name_of(transport), kOption);
}

/// A run on several machines, on this machine's side.
class InCompany {
 public:
  explicit InCompany(const Run& run)
      : run_(run), appointment_(appointment_of(run)), own_(introduce(run.plan, run.program.words.front())) {
    if (run.server != nullptr) signals_.serve_too(*run.server);
    if (appointment_.place.is_leader()) leader_.emplace(appointment_, own_, signals_);
  }

  Outcome live() {
    const Outcome outcome =
        launch::live(run_, signals_, leader_ ? &*leader_ : nullptr, [&](Attempts& attempts) -> Outcome {
          try {
            return one_attempt(attempts);
          } catch (const Error& error) {
            if (error.code() == kUsageFailure) throw;  // a list of problems, which is shown whole
            return {.code = error.code(), .message = error.what()};
          }
        });
    if (leader_) leader_->dismiss_all(to_message(outcome));
    return outcome;
  }

 private:
  static Appointment appointment_of(const Run& run) {
    check_interface_for_ranks();
    const config::Config& config = run.plan.config;
    Appointment appointment{
        .place = rank_assignment_of(run.plan),
        .host = reachable_name(config.main_process_ip),
        .port = config.main_process_port != 0 ? static_cast<int>(config.main_process_port) : kDefaultPort,
        .patience = run.patience.join,
        .last_call = run.patience.last_call,
        .silence = run.patience.silence,
        .folder = config.output_dir,
        .starter = single_starter()};
    appointment.wants_no_secret = is_without_secret();
    appointment.key = take_key();
    if (appointment.key.empty()) refuse_transport_without_key(run.plan);
    for (const int64_t machines : config::usable_machines(config))
      appointment.sizes.push_back(static_cast<int>(machines));
    return appointment;
  }

  /// One attempt, beginning with the meeting of its machines.
  Outcome one_attempt(Attempts& attempts) {
    Leader::Gathered with = leader_ ? leader_->gather(attempts.terms()) : join();
    attempts.take(with.terms);
    const Outcome ready = get_ready(attempts, with.machines);
    if (ready.code != kDone) return ready;
    return supervise_attempt(run_, attempts, with.terms, shares_folder_,
                             peer_key(appointment_.key, with.terms.attempt_id), with.machines, signals_,
                             [this](Machines& machines) { return why_lost(machines); });
  }

  std::string why_lost(Machines& machines) const {
    return why_not_again(machines, appointment_.sizes, appointment_.starter);
  }

  Leader::Gathered join() {
    for (;;) {
      Follower::Joined joined = Follower(appointment_, own_, signals_).join();
      try {
        if (joined.waits) prepare_early(joined);
        const Terms terms = hear_terms(joined.machines, signals_);
        return {std::move(joined.machines), terms};
      } catch (const LostBeforeStart& lost) {
        // This machine lost no attempt, so this costs it no restart. Machine 0 may be started again.
        if (run_.plan.config.max_restarts == 0 || !why_lost(joined.machines).empty()) throw;
        say("trainer: {}\n", lost.what());
      }
    }
  }

  /// Prepares while an attempt runs without this machine, so that the attempt yields to it only once it is ready.
  void prepare_early(Follower::Joined& joined) {
    const Preparation done = prepare_beside(preparation(), joined.machines, signals_);
    if (done.code != kDone) throw EndedBefore{unprepared(done)};
    prepared_ = true;
    joined.machines.send(0, {.op = LinkOp::kPrepared});
  }

  /// The steps between the meeting and the start of the ranks. If one fails, machine 0 informs the others.
  Outcome get_ready(Attempts& attempts, Machines& machines) {
    Outcome ended;
    try {
      share_folder(machines);
      const Preparation done = prepare_together(preparation(), leader_.has_value(), machines, signals_);
      if (done.code == kDone) {
        prepared_ = true;
        return {};
      }
      ended = unprepared(done);
    } catch (const StoppedBeforeStart& stopped) {
      if (leader_)
        machines.part({.op = LinkOp::kEnd, .code = 128 + stopped.signal});
      else
        machines.send(0, {.op = LinkOp::kStop, .number = stopped.signal});  // otherwise this machine counts as lost
      throw;
    } catch (const LostBeforeStart& lost) {
      ended = {.code = lost.code(), .message = lost.what()};
      attempts.judge(ended, why_lost(machines));
    } catch (const Error& error) {
      ended = {.code = error.code(), .message = error.what()};
    }
    if (leader_) machines.part(to_message(ended));
    return ended;
  }

  /// Checks whether all machines see machine 0's output folder; if not, reports it once.
  void share_folder(Machines& machines) {
    const std::string who = who_sees_another_folder(appointment_.folder, leader_.has_value(), machines, signals_);
    shares_folder_ = who.empty();
    if (!who.empty() && !std::exchange(told_of_folder_, true))
      say("trainer: output_dir is not shared: machine 0 keeps the checkpoints, the others send it theirs\n  {}\n", who);
  }

  /// The preparation, or nothing if it has been done.
  Prepare preparation() const {
    return run_.prepare && !prepared_ ? run_.prepare : [] { return Preparation{}; };
  }

  const Run& run_;
  const Appointment appointment_;
  const Introduction own_;
  SignalQueue signals_;
  std::optional<Leader> leader_;
  bool prepared_ = false;
  bool shares_folder_ = true, told_of_folder_ = false;
};

}  // namespace

int run(const config::Plan& plan, const std::string& worker_path, const Patience& patience, const Prepare& prepare,
        const std::vector<std::string>& words, const std::vector<RankPlace>& places) {
  RankProgram program{{worker_path}, places};
  program.words.insert(program.words.end(), words.begin(), words.end());
  const RankAssignment place = rank_assignment_of(plan);
  signal(SIGUSR2, [](int) {});  // nothing can be saved while data is prepared; later the queue receives it
  RunStatus status{.world_size = static_cast<int>(plan.world_size()), .is_leader = place.is_leader()};
  std::unique_ptr<StatusServer> server;
  std::optional<SignalQueue> signals;
  if (place.is_alone()) signals.emplace();  // first: a signal that ends the program leaves no half-made output folder
  std::optional<Output> output;
  std::optional<Tracking> tracking;
  try {
    server = serve_status(plan.config.logging, status);
    status.is_served = server != nullptr;
    if (place.is_leader()) check_keys(plan);
    if (place.is_leader()) output.emplace(plan.config.output_dir);
    if (place.is_leader()) tracking.emplace(plan.config);
  } catch (const Error& error) {
    if (const auto started = config::started_rank()) report_failed_start(*started, &plan, error);
    throw;
  }
  if (output) {
    std::error_code ignored;  // the file may not exist
    std::filesystem::remove(std::filesystem::path(plan.config.output_dir) / "outcome.json", ignored);
  }
  say("{}", about_threads(plan.config.num_cpu_threads_per_process));
  const Run run{plan, program, patience, prepare, output ? &*output : nullptr, status, server.get()};
  const auto finish = [&](const Outcome& outcome) {  // signals stay queued: a late one must not interrupt the report
    report(outcome, plan.config, output ? &*output : nullptr, tracking ? &*tracking : nullptr);
    return outcome.code;
  };
  if (!place.is_alone()) {
    InCompany company(run);
    return finish(company.live());
  }
  forget_secret();  // the ranks would inherit it
  if (server) signals->serve_too(*server);
  return finish(run_alone(run, *signals));
}

}  // namespace trainer::launch
