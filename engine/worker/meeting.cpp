#include "engine/worker/meeting.h"

#include "engine/dist/gloo_comm.h"
#include "engine/dist/mpi_comm.h"
#include "engine/worker/environment.h"

namespace trainer::worker {

std::unique_ptr<dist::Comm> meet(Link& link, config::DdpBackend backend) {
  const int rank = environment_number("RANK"), ranks = environment_number("WORLD_SIZE");
  if (ranks == 1) return dist::solo_comm();
  return backend == config::DdpBackend::kMpi ? dist::mpi_comm(rank, ranks) : dist::gloo_comm(link, rank, ranks);
}

}  // namespace trainer::worker
