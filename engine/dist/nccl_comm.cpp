#include "engine/dist/nccl_comm.h"

#include <exception>

#include "engine/base/log.h"
#include "engine/dist/accelerator.h"
#include "engine/dist/backend_comm.h"
#include "engine/dist/failures.h"
#include "engine/dist/group_stores.h"
#include "engine/dist/link_store.h"

namespace trainer::dist {
namespace {

using StorePtr = c10::intrusive_ptr<c10d::Store>;

class NcclComm : public BackendComm {
 public:
  NcclComm(const StorePtr& store, int rank, int size, at::Device device, std::chrono::seconds timeout)
      : BackendComm(
            translated("the rendezvous of the ranks' devices",
                       [&] { return find_accelerator()->collectives(store, rank, size, device.index(), timeout); }),
            c10d::ProcessGroup::BackendType::NCCL, {device.type()}, /*share_memory=*/false),
        stores_(store),
        device_(device),
        timeout_(timeout) {}

  /// NCCL wants to be told of the end, and that nobody else comes if it is that of a failed run.
  ~NcclComm() override {
    try {
      if (std::uncaught_exceptions() > 0)
        backend().abort();
      else
        backend().shutdown();
    } catch (const std::exception& error) {
      log::warning("{}", error.what());
    }
  }

  at::Device device() const override { return device_; }

 protected:
  std::unique_ptr<Comm> make_group(const std::string& name, const std::vector<int>& ranks, int mine) override {
    return std::make_unique<NcclComm>(stores_.next(name, ranks), mine, static_cast<int>(ranks.size()), device_,
                                      timeout_);
  }

 private:
  GroupStores stores_;
  at::Device device_;
  std::chrono::seconds timeout_;
};

}  // namespace

std::unique_ptr<Comm> nccl_comm(Link& link, int rank, int size, at::Device device, std::chrono::seconds timeout) {
  return nccl_comm(c10::make_intrusive<LinkStore>(link, "nccl/"), rank, size, device, timeout);
}

std::unique_ptr<Comm> nccl_comm(const StorePtr& store, int rank, int size, at::Device device,
                                std::chrono::seconds timeout) {
  return std::make_unique<NcclComm>(store, rank, size, device, timeout);
}

}  // namespace trainer::dist
