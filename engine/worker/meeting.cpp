#include "engine/worker/meeting.h"

#include "engine/base/free_memory.h"
#include "engine/config/machine/device.h"
#include "engine/dist/accelerator.h"
#include "engine/dist/device_comm.h"
#include "engine/dist/gloo_comm.h"
#include "engine/dist/mpi_comm.h"
#include "engine/dist/nccl_comm.h"
#include "engine/dist/shared_memory.h"
#include "engine/dist/shm_comm.h"
#include "engine/dist/tls/guard.h"
#include "engine/train/device_layers.h"
#include "engine/worker/environment.h"

namespace trainer::worker {
namespace {

using config::DdpBackend;

/// Communicates CPU tensors, and those of devices if `devices_too`.
std::unique_ptr<dist::Comm> meet_on_cpu(Link& link, const config::TrainingConfig& training, bool devices_too = false) {
  const int rank = environment_number("RANK"), ranks = environment_number("WORLD_SIZE");
  if (ranks == 1) return dist::solo_comm();
  if (training.ddp_backend == DdpBackend::kMpi) return dist::mpi_comm(rank, ranks);
  const std::chrono::seconds timeout(training.ddp_timeout);
  return devices_too ? dist::gloo_comm(link, rank, ranks, timeout) : dist::cpu_comm(link, rank, ranks, timeout);
}

/// Connections between ranks are protected from now on, if they have a key.
void guard_connections(Link& link, const config::TrainingConfig& training) {
  using config::GlooTransport;
  std::string key = link.peer_key();
  if (key.empty() || training.gloo_transport == GlooTransport::kTcp) return;
  // On one machine no stranger sees the packets, but any user may connect.
  const bool encrypts = training.gloo_transport == GlooTransport::kTls && !dist::ranks_share_a_machine();
  dist::tls::guard_connections({std::move(key), encrypts});
}

}  // namespace

std::unique_ptr<dist::Comm> meet(Link& link, const config::Config& config) {
  if (environment_number("WORLD_SIZE") > 1) guard_connections(link, config.training);
  if (!config::trains_on_gpus(config)) return meet_on_cpu(link, config.training);
  const DdpBackend backend = config.training.ddp_backend;
  const bool own = std::getenv(kOwnGpuVariable) != nullptr;  // then it is number 0, and the only one
  const at::Device device =
      dist::take_device(own ? 0 : environment_number("LOCAL_RANK"), own ? 1 : environment_number("LOCAL_WORLD_SIZE"),
                        /*shared=*/backend == DdpBackend::kGloo);
  train::use_layers_of(*dist::find_accelerator(), device);
  auto host = meet_on_cpu(link, config.training, /*devices_too=*/backend == DdpBackend::kGloo);
  auto devices = backend == DdpBackend::kNccl
                     ? dist::nccl_comm(link, environment_number("RANK"), environment_number("WORLD_SIZE"), device,
                                       std::chrono::seconds(config.training.ddp_timeout))
                     : nullptr;
  return dist::device_comm(std::move(host), std::move(devices), device);
}

bool sees_output() {
  return std::getenv(kKeepersVariable) == nullptr || environment_number("RANK") < environment_number(kKeepersVariable);
}

checkpoint::FolderAccess meet_for_checkpoints(Link& link, const config::Config& config) {
  if (std::getenv(kKeepersVariable) == nullptr) return {};
  return {dist::gloo_comm(link, environment_number("RANK"), environment_number("WORLD_SIZE"),
                          std::chrono::seconds(config.training.ddp_timeout), "checkpoints"),
          environment_number(kKeepersVariable)};
}

int64_t free_bytes(const dist::Comm& comm, int ranks) {
  if (comm.device().is_cpu()) return free_memory() / ranks;
  const dist::Accelerator& accelerator = *dist::find_accelerator();
  const int devices = accelerator.count();
  const int sharing =
      std::getenv(kOwnGpuVariable) != nullptr ? environment_number(kOwnGpuVariable) : (ranks + devices - 1) / devices;
  return accelerator.facts(comm.device().index()).free_bytes / sharing;
}

}  // namespace trainer::worker
