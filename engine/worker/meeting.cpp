#include "engine/worker/meeting.h"

#include "engine/dist/gloo_comm.h"
#include "engine/dist/mpi_comm.h"
#include "engine/worker/environment.h"

namespace trainer::worker {

std::unique_ptr<dist::Comm> meet(Link& link, const config::TrainingConfig& training) {
  const int rank = environment_number("RANK"), ranks = environment_number("WORLD_SIZE");
  if (ranks == 1) return dist::solo_comm();
  if (training.ddp_backend == config::DdpBackend::kMpi) return dist::mpi_comm(rank, ranks);
  return dist::gloo_comm(link, rank, ranks, std::chrono::seconds(training.ddp_timeout));
}

}  // namespace trainer::worker
