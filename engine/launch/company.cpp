#include "engine/launch/company.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "engine/base/errors.h"
#include "engine/base/folder_lock.h"
#include "engine/config/machine/machines.h"
#include "engine/config/machine/started_rank.h"
#include "engine/config/names.h"
#include "engine/launch/address.h"
#include "engine/launch/election.h"
#include "engine/launch/follower.h"
#include "engine/launch/leader.h"
#include "engine/launch/meeting.h"
#include "engine/launch/meeting_key.h"
#include "engine/launch/messages.h"
#include "engine/launch/rank_assignment.h"
#include "engine/launch/screen.h"
#include "engine/launch/secret.h"
#include "engine/launch/slurm.h"
#include "engine/launch/succession.h"

namespace trainer::launch {
namespace {

/// Between the first tries of two machines to succeed a leader. The folder's lock decides; this only prefers the
/// lowest.
constexpr std::chrono::milliseconds kBetweenHeirs{300};

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
    run_.status.sees_checkpoints = shares_folder_ || leader_;
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

int run_in_company(const Run& run, const std::function<int(const Outcome&)>& finish) {
  InCompany company(run);
  return finish(company.live());
}

}  // namespace trainer::launch
