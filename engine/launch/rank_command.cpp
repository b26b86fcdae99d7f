#include "engine/launch/rank_command.h"

#include <cstdlib>

#include "engine/base/folder_lock.h"
#include "engine/base/link_protocol.h"
#include "engine/base/mpi_slot.h"
#include "engine/base/rank_board.h"
#include "engine/config/machine/device.h"
#include "engine/launch/address.h"
#include "engine/launch/rank_threads.h"

namespace trainer::launch {
namespace {

/// NCCL would otherwise choose an interface by itself, maybe one that doesn't reach the other machines.
constexpr const char* kNcclInterface = "NCCL_SOCKET_IFNAME";

}  // namespace

Command rank_command(int rank, const RankSurroundings& about) {
  const std::string threads = std::to_string(threads_of_rank(about.plan.config.num_cpu_threads_per_process));
  Command command{.words = about.program.words,
                  .environment = {{"RANK", std::to_string(rank)},
                                  {"LOCAL_RANK", std::to_string(rank - about.assignment.first_rank())},
                                  {"WORLD_SIZE", std::to_string(about.plan.world_size())},
                                  {"LOCAL_WORLD_SIZE", std::to_string(about.assignment.ranks)},
                                  {"OMP_NUM_THREADS", threads},
                                  {"MKL_NUM_THREADS", threads},
                                  {kAttemptVariable, std::to_string(about.attempt.terms.attempt)},
                                  {kBoardVariable, std::to_string(about.board_fd)}},
                  .on_terminal = rank == 0,
                  .inherited = about.board_fd};
  if (const std::string gpus = config::visible_devices(about.plan.config); !gpus.empty())
    command.environment["CUDA_VISIBLE_DEVICES"] = gpus;
  if (!about.program.places.empty()) {
    const RankPlace& place = about.program.places.at(static_cast<size_t>(rank - about.assignment.first_rank()));
    command.cpus = place.cpus;
    if (!place.gpu.empty()) {
      command.environment["CUDA_VISIBLE_DEVICES"] = place.gpu;
      command.environment[kOwnGpuVariable] = std::to_string(place.ranks_on_gpu);
    }
  }
  if (!about.assignment.is_alone() && std::getenv(kNcclInterface) == nullptr &&
      config::asks_for_gpus(about.plan.config))
    if (const std::string name = interface_of(about.own_address); !name.empty())
      command.environment[kNcclInterface] = "=" + name;  // "=": this one, not all whose names begin with it
  if (!about.assignment.is_alone()) command.environment[kAddressVariable] = about.own_address;
  if (!about.attempt.terms.attempt_id.empty()) command.environment[kAttemptIdVariable] = about.attempt.terms.attempt_id;
  if (!about.attempt.owner.empty()) command.environment[kOwnerVariable] = about.attempt.owner;
  if (!about.attempt.shares_folder) command.environment[kKeepersVariable] = std::to_string(about.assignment.ranks);
  if (!about.slots_folder.empty()) command.environment[kSlotsVariable] = about.slots_folder;
  return command;
}

}  // namespace trainer::launch
