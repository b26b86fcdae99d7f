#pragma once

#include <memory>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "engine/dist/shm/call_queue.h"
#include "engine/dist/shm/channel.h"
#include "engine/dist/shm/region.h"

namespace trainer::dist::shm {

/// c10d's collectives among the ranks of one machine, in shared memory, without sockets. Tensors must be contiguous and
/// on the CPU. A collective runs in wait(), after those that were called before it; a reduction adds the ranks' values
/// in Gloo's order (Note [Gloo's order] in collectives.cpp), so its bits are the same on every rank, in every run, and
/// on any number of machines.
class Backend : public c10d::Backend {
 public:
  explicit Backend(std::unique_ptr<Region> region);
  ~Backend() override;

  const std::string getBackendName() const override { return "shared memory"; }
  WorkPtr allreduce(std::vector<at::Tensor>& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& full, at::Tensor& shard, const c10d::AllgatherOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& shard, at::Tensor& full, const c10d::ReduceScatterOptions& options) override;
  WorkPtr send(std::vector<at::Tensor>& tensors, int to, int tag) override;
  WorkPtr recv(std::vector<at::Tensor>& tensors, int from, int tag) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;

 private:
  std::unique_ptr<Region> region_;
  std::vector<std::unique_ptr<Outbox>> outboxes_;  // by rank
  std::vector<std::unique_ptr<Inbox>> inboxes_;
  CallQueue calls_;
};

}  // namespace trainer::dist::shm
