#include "tests/support/simulated_comm.h"

#include <numeric>

#include <torch/csrc/distributed/c10d/FileStore.hpp>

#include "engine/dist/device_comm.h"
#include "tests/simulated/device.h"
#include "tests/support/device.h"

namespace trainer::testing {
namespace {

constexpr std::chrono::seconds kTimeout{60};

}  // namespace

SimulatedComm::SimulatedComm(const StorePtr& store, int rank, int size, int device)
    : SimulatedComm(c10::make_intrusive<simulated::Communicator>(store, rank, size, device, kTimeout), store,
                    at::Device(simulated::kType, static_cast<c10::DeviceIndex>(device))) {}

SimulatedComm::SimulatedComm(c10::intrusive_ptr<simulated::Communicator> communicator, const StorePtr& store,
                             at::Device device)
    : BackendComm(communicator, c10d::ProcessGroup::BackendType::NCCL, {device.type()}, /*share_memory=*/false),
      communicator_(std::move(communicator)),
      stores_(store),
      device_(device) {}

std::unique_ptr<dist::Comm> SimulatedComm::make_group(const std::string& name, const std::vector<int>& ranks,
                                                      int mine) {
  return std::make_unique<SimulatedComm>(stores_.next(name, ranks), mine, static_cast<int>(ranks.size()),
                                         device_.index());
}

std::unique_ptr<dist::Comm> on_simulated_devices(dist::Comm& host, const std::string& folder) {
  std::vector<int> all(static_cast<size_t>(host.size()));
  std::iota(all.begin(), all.end(), 0);
  const auto store = c10::make_intrusive<c10d::FileStore>(folder + "/devices", host.size());
  return dist::device_comm(host.group("device", all),
                           std::make_unique<SimulatedComm>(store, host.rank(), host.size(), device().index()),
                           device());
}

}  // namespace trainer::testing
