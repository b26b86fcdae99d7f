#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "tests/simulated/lane.h"

namespace trainer::simulated {

/// NCCL's rules over Gloo. Collectives run in the order of their calls on a stream of their own, which first waits for
/// the caller's stream; wait() makes the caller's stream wait. Messages between two ranks, in both directions, are one
/// queue, and a send ends when it is received. Tensors must be on the device.
class Communicator : public c10d::Backend {
 public:
  using StorePtr = c10::intrusive_ptr<c10d::Store>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  Communicator(StorePtr store, int rank, int size, int device, std::chrono::milliseconds timeout);

  const std::string getBackendName() const override { return "nccl"; }
  WorkPtr allreduce(std::vector<at::Tensor>& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& full, at::Tensor& shard, const c10d::AllgatherOptions&) override;
  WorkPtr _reduce_scatter_base(at::Tensor& shard, at::Tensor& full, const c10d::ReduceScatterOptions&) override;
  WorkPtr send(std::vector<at::Tensor>& tensors, int to, int) override;
  WorkPtr recv(std::vector<at::Tensor>& tensors, int from, int) override;
  WorkPtr barrier(const c10d::BarrierOptions&) override;
  void shutdown() override { note_end("shutdown"); }
  void abort() override;

 private:
  void note_end(const char* how) const;
  Lane& between(int peer);

  StorePtr store_;
  int device_;
  std::chrono::milliseconds timeout_;
  std::unique_ptr<Lane> all_;
  std::map<int, std::unique_ptr<Lane>> pairs_;  // by the other rank
};

}  // namespace trainer::simulated
