#include "engine/launch/run.h"

#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "engine/base/errors.h"
#include "engine/base/folder_lock.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/checkpoint/leader_epoch.h"
#include "engine/config/machine/machines.h"
#include "engine/config/machine/started_rank.h"
#include "engine/config/names.h"
#include "engine/launch/address.h"
#include "engine/launch/attempts.h"
#include "engine/launch/election.h"
#include "engine/launch/failure.h"
#include "engine/launch/farewell.h"
#include "engine/launch/follower.h"
#include "engine/launch/leader.h"
#include "engine/launch/leadership.h"
#include "engine/launch/meeting.h"
#include "engine/launch/meeting_key.h"
#include "engine/launch/messages.h"
#include "engine/launch/outcome.h"
#include "engine/launch/rank_assignment.h"
#include "engine/launch/rank_threads.h"
#include "engine/launch/replicas.h"
#include "engine/launch/run_status.h"
#include "engine/launch/screen.h"
#include "engine/launch/secret.h"
#include "engine/launch/slurm.h"
#include "engine/launch/status_server.h"
#include "engine/launch/succession.h"

namespace trainer::launch {
namespace {

/// Between the first tries of two machines to succeed a leader. The folder's lock decides; this only prefers the
/// lowest.
constexpr std::chrono::milliseconds kBetweenHeirs{300};

/// Reports the outcome; the leader also to files and servers. `leads`: null on a follower.
void report(const Outcome& outcome, const config::Config& config, Leadership* leads, const RunStatus& status,
            Output output) {
  const std::string& resume = config.checkpoint.resume_from_checkpoint;
  const Kept kept{.checkpoint = newest_checkpoint(config.output_dir),
                  .resumes = resume == "auto" || resume == "true",
                  .wrote_nothing = leads != nullptr && leads->wrote_nothing(),
                  .temporary = output == Output::kTemporary,
                  .elsewhere = leads == nullptr,
                  .replicated = status.replicated,
                  .leader_epoch = checkpoint::newest_epoch(config.output_dir)};
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

Outcome unprepared(const Preparation& prepared) {
  return {.code = prepared.code, .phase = "preparing the data", .message = prepared.message};
}

/// The inputs of a run on this machine.
struct Run {
  const config::Plan& plan;
  const RankProgram& program;
  const Patience& patience;
  const Prepare& prepare;
  std::unique_ptr<Leadership>& leads;  // null: another machine does
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

/// Why no attempt of at least `least` machines can follow the loss of some of `of_attempt`: what started the launchers
/// doesn't start them again. "" if one can.
std::string why_not_again(Machines& machines, int of_attempt, int least, bool may_lead, const std::string& starter) {
  const std::vector<Machine>& others = machines.others();
  const auto gone =
      std::count_if(others.begin(), others.end(), [](const Machine& machine) { return machine.is_gone(); });
  if (starter.empty() || gone == 0) return "";
  const bool needs_leader = others.front().number == 0 && others.front().is_gone() && !may_lead;
  if (!needs_leader && of_attempt - gone >= least) return "";
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
      if (const std::string why = run.leads ? run.leads->superseded() : ""; !why.empty())
        return {.code = kMachineFailure, .step = ended.step, .message = why};
      if (!ended.again) return ended;
      begin_next(attempts, ended, door(), signals, run.status);
    }
  } catch (const StoppedBeforeStart& stopped) {
    return {.code = 128 + stopped.signal,
            .message = fmt::format("stopped on {}, before the ranks were started", signal_name(stopped.signal))};
  }
}

/// Starts the ranks of an attempt, and watches them until they end.
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
    checkpoint::recover_replaced(run.plan.config.output_dir);
  }
  const config::Plan plan = plan_of(run.plan, terms);
  run.status.world_size = static_cast<int>(plan.world_size());
  run.status.restarts = terms.restarts;
  return supervise(plan, attempt, run.program, run.patience, machines, signals, run.status);
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
    if (appointment_.is_elastic() && run.plan.config.checkpoint.replicas > 1) election_.emplace(appointment_, own_);
    shares_folder_ = !election_ || !election_->has_taken_part();
    if (run.leads) lead(appointment_);
  }

  Outcome live() {
    const auto door = [this]() -> Door* { return leader_ ? &*leader_ : nullptr; };
    const Outcome outcome = launch::live(run_, signals_, door, [&](Attempts& attempts) -> Outcome {
      try {
        return one_attempt(attempts);
      } catch (const Error& error) {
        if (error.code() == kUsageFailure) throw;  // a list of problems, which is shown whole
        return {.code = error.code(), .message = error.what()};
      }
    });
    // A leader that was succeeded only hangs up: machines that it knows look for the one that leads now.
    if (leader_ && run_.leads && !leader_->is_superseded() && run_.leads->superseded().empty())
      leader_->dismiss_all(to_message(outcome));
    const bool is_over = outcome.code == kDone || outcome.code == kInterrupted || outcome.code == kStopRequested;
    if (election_ && !shares_folder_ && is_over) election_->forget();
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
        .rejoin = run.patience.rejoin,
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
    Leader::Gathered with = meet(attempts);
    attempts.take(with.terms);
    of_attempt_ = with.terms.machines;
    try {
      const Outcome ended = one_attempt(attempts, with);
      note_end(with.machines);
      return ended;
    } catch (const EndedBefore&) {
      note_end(with.machines);
      throw;
    }
  }

  Outcome one_attempt(Attempts& attempts, Leader::Gathered& with) {
    std::unique_ptr<Replication> replication;
    const Outcome ready = get_ready(attempts, with, replication);
    if (ready.code != kDone) return ready;
    const Outcome ended = supervise_attempt(
        run_, attempts, with.terms, shares_folder_ || with.machines.others().empty(),
        peer_key(appointment_.key, with.terms.attempt_id), with.machines, signals_,
        [this](Machines& machines) { return why_lost(machines); }, replication.get());
    if (replication) replicas_.end(*replication);
    return ended;
  }

  std::string why_lost(Machines& machines) const {
    const bool may_lead = shares_folder_ ? may_lead_ : election_ && election_->why_not().empty();
    return why_not_again(machines, of_attempt_, appointment_.sizes.front(), may_lead, appointment_.starter);
  }

  /// Gathers the other machines, or joins their leader.
  Leader::Gathered meet(Attempts& attempts) {
    for (;;) {
      if (!run_.leads)
        if (auto joined = join()) return std::move(*joined);
      try {
        return leader_->gather(attempts.terms());
      } catch (const Leader::SteppedDown& stepped_down) {
        step_down(stepped_down);
      }
    }
  }

  /// Joins the leader. Null: this machine leads.
  std::optional<Leader::Gathered> join() {
    const Clock::time_point turn = Clock::now() + kBetweenHeirs * own_.machine;
    const Follower::Alternatives alternatives{.places = [this] { return places(); },
                                              .takes_over =
                                                  [&] {
                                                    return election_ && !shares_folder_
                                                               ? ask_for_votes(turn)
                                                               : may_lead_ && Clock::now() >= turn && take_over();
                                                  },
                                              .door = [this]() -> Door* { return leader_ ? &*leader_ : nullptr; },
                                              .why_nobody_leads = [this] { return why_nobody_leads(); }};
    for (;;) {
      std::optional<Follower::Joined> joined = Follower(appointment_, own_, signals_).join(alternatives);
      if (!joined) return std::nullopt;
      leader_.reset();
      follow(joined->epoch);
      try {
        if (joined->waits) prepare_early(*joined);
        const Terms terms = hear_terms(joined->machines, signals_);
        return Leader::Gathered{std::move(joined->machines), terms};
      } catch (const LostBeforeStart& lost) {
        note_end(joined->machines);
        // This machine lost no attempt, so this costs it no restart. Machine 0 may be started again.
        if (run_.plan.config.max_restarts == 0 || !why_lost(joined->machines).empty()) throw;
        say("trainer: {}\n", lost.what());
      }
    }
  }

  /// The epoch of this machine's leader, which may be itself.
  void follow(int64_t epoch) {
    own_.epoch = std::max(own_.epoch, epoch);
    run_.status.leader_epoch = own_.epoch;
  }

  /// Where a leader may be, besides the appointed address.
  std::vector<LeaderPlace> places() const {
    if (!shares_folder_) return election_ ? election_->places() : std::vector<LeaderPlace>();
    const auto leader = appointment_.is_elastic() ? leader_of(appointment_.folder) : std::nullopt;
    return leader ? std::vector{*leader} : std::vector<LeaderPlace>();
  }

  std::string why_nobody_leads() const {
    if (shares_folder_ || !election_) return "";
    return leader_ ? "no majority of the machines that trained last has come to this one yet" : election_->why_not();
  }

  /// The attempt has ended, or the leader was lost before it.
  void note_end(Machines& machines) {
    if (election_) election_->note_end(!leader_ && !machines.others().empty() && machines.others().front().is_gone());
  }

  /// Leads the run if a majority of the last machines comes here: Note [Succession].
  bool ask_for_votes(Clock::time_point turn) {
    election_->update(leader_.has_value());
    if (leader_ && leader_->successor()) election_->note_leader(*leader_->successor());
    if (Clock::now() < turn || !election_->is_turn() || !election_->why_not().empty()) return false;
    try {
      if (!leader_) return listen_for_votes();
      if (!leader_->could_begin()) return false;
      replicas_.release_folder();
      run_.leads = std::make_unique<Leadership>(run_.plan);
    } catch (const Error& error) {
      return cannot_lead(error);
    }
    leader_->on_higher_epoch([this](int64_t above) { return outbid(above); });
    run_.status.is_leader = true;
    return true;
  }

  bool listen_for_votes() {
    heir_ = appointment_;
    if (own_.machine != 0) heir_.host = election_->address();
    leader_.emplace(heir_, own_, signals_, 0);
    leader_->need_majority(&election_->votes());
    leader_->succeed();
    election_->update(true);
    return false;
  }

  bool cannot_lead(const Error& error) {
    say("trainer: machine {} of {} cannot lead the run: {}\n", own_.machine, own_.machines, error.what());
    leader_.reset();
    run_.leads.reset();
    if (election_) election_->exclude();
    return may_lead_ = false;
  }

  /// This machine looks for the leader, or asks for votes, as all others do.
  void step_down(const Leader::SteppedDown& stepped_down) {
    say("trainer: machine {} of {} leads no longer: {}\n", own_.machine, own_.machines, stepped_down.why);
    leader_.reset();
    run_.leads.reset();
    run_.status.is_leader = false;
    shares_folder_ = false;
    election_->step_down(stepped_down.leader);
  }

  /// The votes for an attempt: Note [Votes].
  Membership vote(Machines& machines) {
    if (!leader_)
      if (const std::string why_not = replicas_.hold_folder(); !why_not.empty()) throw MachineError("{}", why_not);
    return election_->vote(run_.leads.get(), machines, signals_);
  }

  /// The attempt is agreed.
  void begin(const Membership& next, Machines& machines) {
    const bool was_leader = election_->votes().record().agreed.leader == own_.machine;
    election_->agree(next, leader_.has_value(), machines, signals_);
    follow(next.epoch);
    if (!leader_ || own_.machine == 0) return;
    leader_->set_epoch(own_.epoch);
    leader_->tell_machine_0(appointment_, {own_.machine, heir_.host, heir_.port});
    if (!was_leader)
      say("trainer: machine {} of {} leads the run from now on, at {}: a majority has voted for it\n", own_.machine,
          own_.machines, endpoint_text(heir_.host, heir_.port));
  }

  /// Listens where `appointment` says.
  void lead(const Appointment& appointment) {
    follow(run_.leads->epoch());
    leader_.emplace(appointment, own_, signals_, own_.epoch);
    if (election_) leader_->need_majority(&election_->votes());
    leader_->on_higher_epoch([this](int64_t above) { return outbid(above); });
    if (appointment_.is_elastic()) run_.leads->announce(to_line({own_.machine, appointment.host, appointment.port}));
  }

  int64_t outbid(int64_t above) {
    if (!run_.leads->superseded().empty()) return 0;
    run_.leads->raise_epoch(above);
    follow(run_.leads->epoch());
    return own_.epoch;
  }

  /// Leads the run if the leader is dead, so that the folder isn't locked: Note [Succession].
  bool take_over() {
    // Without the last leader's line this isn't the folder that the machines share: it isn't mounted any more.
    if (!leader_of(appointment_.folder)) return false;
    heir_ = appointment_;
    heir_.host = own_address_;
    try {
      run_.leads = std::make_unique<Leadership>(run_.plan);
      lead(heir_);
      leader_->succeed();
    } catch (const FolderInUse&) {  // the leader is alive, or another machine was faster
      return false;
    } catch (const Error& error) {
      return cannot_lead(error);
    }
    run_.status.is_leader = true;
    say("trainer: machine {} of {} leads the run from now on, at {}: the last leader is lost\n", own_.machine,
        own_.machines, endpoint_text(heir_.host, heir_.port));
    return true;
  }

  /// Prepares while an attempt runs without this machine, so that the attempt yields to it only once it is ready.
  void prepare_early(Follower::Joined& joined) {
    const Preparation done = prepare_beside(preparation(), joined.machines, signals_);
    if (done.code != kDone) throw EndedBefore{unprepared(done)};
    prepared_ = true;
    joined.machines.send(0, {.op = LinkOp::kPrepared});
  }

  /// The steps between the meeting and the start of the ranks. If one fails, machine 0 informs the others.
  Outcome get_ready(Attempts& attempts, Leader::Gathered& with, std::unique_ptr<Replication>& replication) {
    Machines& machines = with.machines;
    Outcome ended;
    try {
      share_folder(machines);
      std::optional<Membership> next;
      if (election_ && !shares_folder_) next = vote(machines);
      replication = replicas_.begin(with.terms, shares_folder_, run_.leads.get(), machines, signals_, run_.status);
      if (next) begin(*next, machines);
      if (leader_) {
        follow(run_.leads->epoch());
        leader_->set_epoch(own_.epoch);
      }
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
    shares_folder_ = who.empty() && !(election_ && machines.others().empty());  // alone, it can't know
    may_lead_ = shares_folder_ && appointment_.is_elastic();
    if (election_) set_up_election(machines.own_address());
    own_address_ = machines.own_address();
    if (!who.empty() && !std::exchange(told_of_folder_, true))
      say("trainer: output_dir is not shared: machine 0 keeps the checkpoints, the others send it theirs{}\n  {}\n",
          run_.plan.config.checkpoint.replicas > 1
              ? fmt::format("; {} of them keep{} copies", run_.plan.config.checkpoint.replicas - 1,
                            run_.plan.config.checkpoint.replicas == 2 ? "s" : "")
              : "",
          who);
  }

  void set_up_election(const std::string& own_address) {
    election_->set_address(own_address);
    if (leader_) leader_->need_majority(shares_folder_ ? nullptr : &election_->votes());
    if (leader_ && shares_folder_) election_->forget();
  }

  /// The preparation, or nothing if it has been done.
  Prepare preparation() const {
    return run_.prepare && !prepared_ ? run_.prepare : [] { return Preparation{}; };
  }

  const Run& run_;
  const Appointment appointment_;
  Appointment heir_{};  // where this machine listens as a successor
  Introduction own_;
  SignalQueue signals_;
  std::optional<Election> election_;  // in which case machines that share no folder may succeed the leader
  std::optional<Leader> leader_;
  bool prepared_ = false;
  Replicas replicas_{run_.plan};
  bool shares_folder_ = true, told_of_folder_ = false;
  int of_attempt_ = 1;       // machines of the last attempt
  std::string own_address_;  // at which they have reached this one
  bool may_lead_ = false;    // it took part, and sees their output folder
};

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
  if (!place.is_alone()) {
    InCompany company(run);
    return finish(company.live());
  }
  forget_secret();  // the ranks would inherit it
  if (server) signals->serve_too(*server);
  return finish(run_alone(run, *signals));
}

}  // namespace trainer::launch
