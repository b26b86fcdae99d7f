// Ranks with simulated devices, within a test.
#pragma once

#include <chrono>
#include <memory>

#include "engine/dist/backend_comm.h"
#include "engine/dist/group_stores.h"
#include "tests/simulated/communicator.h"

namespace trainer::testing {

/// NcclComm's part for a device that isn't loaded from a library: collectives by NCCL's rules.
class SimulatedComm : public dist::BackendComm {
 public:
  using StorePtr = c10::intrusive_ptr<c10d::Store>;

  SimulatedComm(const StorePtr& store, int rank, int size, int device);

  at::Device device() const override { return device_; }
  simulated::Communicator& communicator() { return *communicator_; }

 protected:
  std::unique_ptr<dist::Comm> make_group(const std::string& name, const std::vector<int>& ranks, int mine) override;

 private:
  SimulatedComm(c10::intrusive_ptr<simulated::Communicator> communicator, const StorePtr& store, at::Device device);

  c10::intrusive_ptr<simulated::Communicator> communicator_;
  dist::GroupStores stores_;
  at::Device device_;
};

/// All ranks of `host` on the first device of their processes: tensors on it by NCCL's rules, others over `host`.
/// `folder`: shared by the ranks.
std::unique_ptr<dist::Comm> on_simulated_devices(dist::Comm& host, const std::string& folder);

}  // namespace trainer::testing
