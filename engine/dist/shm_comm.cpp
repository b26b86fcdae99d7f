#include "engine/dist/shm_comm.h"

#include "engine/dist/backend_comm.h"
#include "engine/dist/failures.h"
#include "engine/dist/group_stores.h"
#include "engine/dist/link_store.h"
#include "engine/dist/shared_memory.h"
#include "engine/dist/shm/backend.h"

namespace trainer::dist {
namespace {

using StorePtr = c10::intrusive_ptr<c10d::Store>;

class ShmComm : public BackendComm {
 public:
  ShmComm(std::unique_ptr<shm::Region> region, const StorePtr& store, std::chrono::seconds timeout)
      : BackendComm(c10::make_intrusive<shm::Backend>(std::move(region)), c10d::ProcessGroup::BackendType::CUSTOM,
                    {c10::DeviceType::CPU}, /*share_memory=*/true),
        stores_(store),
        timeout_(timeout) {}

  bool has_reduce_scatter() const override { return true; }
  bool runs_in_wait() const override { return true; }

 protected:
  /// In place: the shard is a part of `full`.
  Scattered start_reduce_scatter(const at::Tensor& full) override {
    const int64_t share = full.numel() / size();
    at::Tensor shard = full.narrow(0, rank() * share, share), all = full;
    return {shard, pending(backend()._reduce_scatter_base(shard, all))};
  }
  std::unique_ptr<Comm> make_group(const std::string& name, const std::vector<int>& ranks, int mine) override {
    return cpu_comm(stores_.next(name, ranks), mine, static_cast<int>(ranks.size()), /*share_memory=*/true, timeout_);
  }

 private:
  GroupStores stores_;
  std::chrono::seconds timeout_;
};

}  // namespace

std::unique_ptr<Comm> shm_comm(const StorePtr& store, int rank, int size, std::chrono::seconds timeout) {
  return translated("the rendezvous of the ranks", [&]() -> std::unique_ptr<Comm> {
    auto region = shm::Region::meet(*store, rank, size, timeout);
    return region ? std::make_unique<ShmComm>(std::move(region), store, timeout) : nullptr;
  });
}

std::unique_ptr<Comm> cpu_comm(const StorePtr& store, int rank, int size, bool share_memory,
                               std::chrono::seconds timeout) {
  auto comm = share_memory && may_share_memory() ? shm_comm(store, rank, size, timeout) : nullptr;
  return comm ? std::move(comm) : gloo_comm(store, rank, size, share_memory, timeout);
}

std::unique_ptr<Comm> cpu_comm(Link& link, int rank, int size, std::chrono::seconds timeout, const std::string& name) {
  return cpu_comm(c10::make_intrusive<LinkStore>(link, name + "/"), rank, size, ranks_share_a_machine(), timeout);
}

}  // namespace trainer::dist
