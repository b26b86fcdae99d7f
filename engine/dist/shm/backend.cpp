#include "engine/dist/shm/backend.h"

#include "engine/base/errors.h"
#include "engine/dist/shm/collectives.h"

namespace trainer::dist::shm {
namespace {

const at::Tensor& only(const std::vector<at::Tensor>& tensors) {
  require(tensors.size() == 1 && tensors.front().is_cpu() && tensors.front().is_contiguous(),
          "collectives in shared memory take one contiguous tensor on the CPU");
  return tensors.front();
}

c10d::ReduceOp::RedOpType sum_or_maximum(const c10d::ReduceOp& op) {
  require(op == c10d::ReduceOp::SUM || op == c10d::ReduceOp::MAX, "a reduction in shared memory is a sum or a maximum");
  return op == c10d::ReduceOp::SUM ? c10d::ReduceOp::SUM : c10d::ReduceOp::MAX;
}

}  // namespace

Backend::Backend(std::unique_ptr<Region> region)
    : c10d::Backend(region->rank(), region->size()), region_(std::move(region)), calls_(getRank()) {
  for (int peer = 0; peer < getSize(); ++peer) {
    outboxes_.push_back(std::make_unique<Outbox>(*region_, peer));
    inboxes_.push_back(std::make_unique<Inbox>(*region_, peer));
  }
}

Backend::~Backend() = default;

WorkPtr Backend::allreduce(std::vector<at::Tensor>& tensors, const c10d::AllreduceOptions& options) {
  return calls_.add(
      c10d::OpType::ALLREDUCE, tensors,
      [this, tensor = only(tensors), op = sum_or_maximum(options.reduceOp)] { shm::all_reduce(*region_, tensor, op); });
}

WorkPtr Backend::_allgather_base(at::Tensor& full, at::Tensor& shard, const c10d::AllgatherOptions&) {
  require(only({full}).nbytes() == only({shard}).nbytes() * static_cast<size_t>(getSize()),
          "a gather's result has the wrong size");
  return calls_.add(c10d::OpType::_ALLGATHER_BASE, {full},
                    [this, full, shard] { shm::all_gather(*region_, full, shard); });
}

WorkPtr Backend::_reduce_scatter_base(at::Tensor& shard, at::Tensor& full, const c10d::ReduceScatterOptions& options) {
  require(only({full}).nbytes() == only({shard}).nbytes() * static_cast<size_t>(getSize()),
          "a scattered reduction has the wrong size");
  return calls_.add(
      c10d::OpType::_REDUCE_SCATTER_BASE, {shard},
      [this, shard, full, op = sum_or_maximum(options.reduceOp)] { shm::reduce_scatter(*region_, shard, full, op); });
}

WorkPtr Backend::send(std::vector<at::Tensor>& tensors, int to, int) {
  return outboxes_.at(static_cast<size_t>(to))->send(only(tensors));
}

WorkPtr Backend::recv(std::vector<at::Tensor>& tensors, int from, int) {
  return inboxes_.at(static_cast<size_t>(from))->receive(only(tensors));
}

WorkPtr Backend::barrier(const c10d::BarrierOptions&) {
  return calls_.add(c10d::OpType::BARRIER, {}, [this] { shm::barrier(*region_); });
}

}  // namespace trainer::dist::shm
