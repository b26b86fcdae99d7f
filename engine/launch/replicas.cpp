#include "engine/launch/replicas.h"

#include <utility>

#include "engine/base/errors.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/launch/replica_keeper.h"
#include "engine/launch/replicator.h"
#include "engine/launch/screen.h"

namespace trainer::launch {

std::unique_ptr<Replication> Replicas::begin(const Terms& terms, bool shares_folder, Leadership* leads,
                                             Machines& machines, SignalQueue& signals, RunStatus& status) {
  if (config_.checkpoint.replicas < 2 || machines.others().empty()) return nullptr;
  if (shares_folder) {
    release_folder();
    if (leads != nullptr && !std::exchange(told_, true))
      say("trainer: warning: checkpoint.replicas is {}, but all machines share output_dir: there is one copy of each "
          "checkpoint\n",
          config_.checkpoint.replicas);
    return nullptr;
  }
  if (leads != nullptr) return lead(terms, *leads, machines, signals, status);
  const std::string why_not = hold_folder();
  const Helped helped = help_restore(config_.output_dir, terms.machine, why_not, whole_, machines, signals);
  whole_ = helped.own.newest;
  if (!why_not.empty()) return nullptr;
  const checkpoint::Keep keep{config_.checkpoint.save_total_limit, config_.checkpoint.metric_for_best_model};
  return std::make_unique<ReplicaKeeper>(config_.output_dir, keep, helped.leader_epoch, machines);
}

std::unique_ptr<Replication> Replicas::lead(const Terms& terms, Leadership& leads, Machines& machines,
                                            SignalQueue& signals, RunStatus& status) {
  checkpoint::recover_interrupted(config_.output_dir);
  const Fetch what = config_.checkpoint.metric_for_best_model == "none" ? Fetch::kNewest : Fetch::kAll;
  const Beginning how = beginning(terms);
  const Restored restored = restore_newest(config_.output_dir, how, what, whole_, machines, signals);
  whole_ = restored.own.newest;
  // Once it has led an attempt, copies of its own checkpoints are of its epoch.
  const int64_t highest = restored.highest_epoch();
  leads.raise_epoch(std::exchange(has_led_, true) && !restored.fetched ? highest - 1 : highest);
  if (how == Beginning::kNewest) remove_abandoned(config_.output_dir, restored.own);
  go_ahead(leads.epoch(), how == Beginning::kNewest ? restored.own : Holdings{}, machines);
  return std::make_unique<Replicator>(config_.output_dir, config_.checkpoint.replicas - 1, restored.others, machines,
                                      status);
}

void Replicas::end(const Replication& replication) {
  if (std::string newest = replication.newest_whole(); !newest.empty()) whole_ = std::move(newest);
}

Beginning Replicas::beginning(const Terms& terms) const {
  const std::string& choice = config_.checkpoint.resume_from_checkpoint;
  if (terms.resumes || choice == "auto" || choice == "true") return Beginning::kNewest;
  return choice == "false" ? Beginning::kFromScratch : Beginning::kNamed;
}

std::string Replicas::hold_folder() {
  try {
    if (!folder_) {
      folder_.emplace(config_.output_dir);
      checkpoint::remove_partial(config_.output_dir);
    }
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace trainer::launch
