#include "engine/dist/backend_comm.h"

#include <algorithm>

#include <ATen/ops/empty.h>

#include "engine/dist/failures.h"
#include "engine/dist/forwarding_comm.h"
#include "engine/dist/shared_memory.h"

namespace trainer::dist {
namespace {

class WorkPending : public Pending {
 public:
  explicit WorkPending(c10::intrusive_ptr<c10d::Work> work) : work_(std::move(work)) {}
  void wait() override {
    translated("a transfer", [&] { return work_->wait(); });
  }

 private:
  c10::intrusive_ptr<c10d::Work> work_;
};

}  // namespace

BackendComm::BackendComm(c10::intrusive_ptr<c10d::Backend> backend, c10d::ProcessGroup::BackendType type,
                         const std::vector<c10::DeviceType>& devices, bool share_memory)
    : backend_(std::move(backend)),
      group_(c10::make_intrusive<c10d::ProcessGroup>(backend_->getRank(), backend_->getSize())),
      share_memory_(share_memory),
      runs_beside_(type == c10d::ProcessGroup::BackendType::NCCL) {
  if (const auto device = backend_->getBoundDeviceId())
    group_->setBoundDeviceId(device);  // setBackend() copies it back
  for (const c10::DeviceType device : devices) group_->setBackend(device, type, backend_);
}

std::unique_ptr<Pending> BackendComm::pending(c10::intrusive_ptr<c10d::Work> work) {
  return std::make_unique<WorkPending>(std::move(work));
}

std::unique_ptr<Pending> BackendComm::all_gather(const at::Tensor& full, const at::Tensor& shard) {
  return translated("a gather", [&] {
    at::Tensor to = full, from = shard;
    return pending(backend_->_allgather_base(to, from));
  });
}

void BackendComm::all_reduce(const at::Tensor& tensor, Reduce op) {
  translated("a reduction", [&] {
    std::vector<at::Tensor> tensors{tensor};
    c10d::AllreduceOptions options;
    options.reduceOp = op == Reduce::kSum ? c10d::ReduceOp::SUM : c10d::ReduceOp::MAX;
    return backend_->allreduce(tensors, options)->wait();
  });
}

Comm::Scattered BackendComm::start_reduce_scatter(const at::Tensor& full) {
  return translated("a reduction", [&] {
    at::Tensor shard = at::empty({full.numel() / size()}, full.options()), from = full;
    return Scattered{shard, pending(backend_->_reduce_scatter_base(shard, from))};
  });
}

std::unique_ptr<Pending> BackendComm::send(const at::Tensor& tensor, int to) {
  return translated("a send", [&] {
    std::vector<at::Tensor> tensors{tensor};
    return pending(backend_->send(tensors, to, /*tag=*/0));
  });
}

std::unique_ptr<Pending> BackendComm::receive(const at::Tensor& tensor, int from) {
  return translated("a receive", [&] {
    std::vector<at::Tensor> tensors{tensor};
    return pending(backend_->recv(tensors, from, /*tag=*/0));
  });
}

void BackendComm::barrier() {
  translated("a barrier", [&] { return backend_->barrier()->wait(); });
}

at::Tensor BackendComm::shared_memory(int64_t bytes) {
  return share_memory_ ? map_shared_memory(*this, bytes) : at::Tensor();
}

std::unique_ptr<Comm> BackendComm::group(const std::string& name, const std::vector<int>& ranks) {
  if (ranks.size() == 1) return solo_comm();
  const auto mine = std::find(ranks.begin(), ranks.end(), rank()) - ranks.begin();
  return make_group(name, ranks, static_cast<int>(mine));
}

c10d::ProcessGroup& process_group(Comm& comm) {
  auto* const over_backend = beneath<BackendComm>(comm);
  if (over_backend == nullptr) throw InternalError("this communicator has no c10d group");
  return over_backend->process_group();
}

}  // namespace trainer::dist
