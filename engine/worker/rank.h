#pragma once

#include <functional>
#include <optional>

#include "engine/base/link.h"
#include "engine/config/plan/plan.h"
#include "engine/dist/comm.h"
#include "engine/dist/faulty_comm.h"
#include "engine/train/build.h"
#include "engine/train/trainer.h"

namespace trainer::worker {

/// A rank of a run, connected to the others: the inputs and the model of its plan, without the weights.
struct Rank {
  Link& link;
  config::Plan plan{};
  train::Setup setup{};
  dist::Comm* comm = nullptr;
  std::optional<dist::Fault> fault{};  // a requested one
  train::Trainer::Report report{};
};

/// Collective. What a rank does once it is connected.
using RankWork = std::function<train::Ending(Rank& rank)>;

/// One rank of a run, started by the supervisor: sets up what the plan says and does `work`. Returns the exit code and
/// never throws: failures go to the supervisor.
int run_rank(const RankWork& work);

/// Collective. What a rank does with its trainer.
using TrainerWork = std::function<train::Ending(train::Trainer& trainer, dist::Comm& comm)>;

/// run_rank() for a rank that trains: loads the weights and makes the trainer.
int run_trainer(const TrainerWork& work);

}  // namespace trainer::worker
