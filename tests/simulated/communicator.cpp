#include "tests/simulated/communicator.h"

#include <cstdlib>
#include <fstream>

#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "tests/simulated/device.h"

namespace trainer::simulated {
namespace {

void check_on_device(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.is_privateuseone() && tensor.is_contiguous(), "Tensors must be CUDA and dense"); // NCCL's words
}

}  // namespace

Communicator::Communicator(StorePtr store, int rank, int size, int device, std::chrono::milliseconds timeout)
    : Backend(rank, size),
      store_(std::move(store)),
      device_(device),
      timeout_(timeout),
      all_(std::make_unique<Lane>(fmt::format("collectives of {} ranks", size),
                                  c10::make_intrusive<c10d::PrefixStore>("all/", store_), rank, size, device,
                                  timeout)) {}

Communicator::WorkPtr Communicator::allreduce(std::vector<at::Tensor>& tensors, const c10d::AllreduceOptions& options) {
  check_on_device(tensors.front());
  return all_->add(c10d::OpType::ALLREDUCE, tensors, tensors, [tensor = tensors.front(), options](c10d::Backend& gloo) {
    std::vector<at::Tensor> values{on_cpu(tensor)};
    gloo.allreduce(values, options)->wait();
  });
}

Communicator::WorkPtr Communicator::_allgather_base(at::Tensor& full, at::Tensor& shard, const c10d::AllgatherOptions&) {
  check_on_device(full);
  check_on_device(shard);
  return all_->add(c10d::OpType::_ALLGATHER_BASE, {shard}, {full}, [full, shard](c10d::Backend& gloo) {
    at::Tensor to = on_cpu(full), from = on_cpu(shard);
    gloo._allgather_base(to, from)->wait();
  });
}

Communicator::WorkPtr Communicator::_reduce_scatter_base(at::Tensor& shard, at::Tensor& full,
                                                         const c10d::ReduceScatterOptions& given) {
  check_on_device(full);
  check_on_device(shard);
  return all_->add(c10d::OpType::_REDUCE_SCATTER_BASE, {full}, {shard}, [this, full, shard, given](c10d::Backend& gloo) {
    std::vector<at::Tensor> sum{on_cpu(full).clone()};  // the input keeps its values
    c10d::AllreduceOptions options;
    options.reduceOp = given.reduceOp;
    gloo.allreduce(sum, options)->wait();
    on_cpu(shard).copy_(sum.front().view(-1).narrow(0, getRank() * shard.numel(), shard.numel()).view_as(shard));
  });
}

/// With TRAINER_SIMULATED_ENDS, the name of a folder, a rank adds a line there when a communicator is shut down or
/// aborted.
void Communicator::note_end(const char* how) const {
  const char* const folder = std::getenv("TRAINER_SIMULATED_ENDS");
  if (folder == nullptr) return;
  const auto device = getBoundDeviceId();
  const char* const rank = std::getenv("RANK");
  std::ofstream(fmt::format("{}/{}", folder, rank == nullptr ? "none" : rank), std::ios::app)
      << how << ", bound to " << (device ? device->str() : "no device")
      << (at::globalContext().allowTF32CuBLAS() ? ", with TF32" : "") << "\n";
}

void Communicator::abort() {
  note_end("abort");
  all_->abort();
  for (const auto& [peer, lane] : pairs_) lane->abort();
}

Lane& Communicator::between(int peer) {
  std::unique_ptr<Lane>& lane = pairs_[peer];
  if (lane == nullptr) {
    const int low = std::min(getRank(), peer), high = std::max(getRank(), peer);
    const std::string name = fmt::format("messages between ranks {} and {}", low, high);
    lane = std::make_unique<Lane>(name, c10::make_intrusive<c10d::PrefixStore>(name + "/", store_),
                                  getRank() == low ? 0 : 1, 2, device_, timeout_);
  }
  return *lane;
}

Communicator::WorkPtr Communicator::send(std::vector<at::Tensor>& tensors, int to, int) {
  check_on_device(tensors.front());
  const int peer = to > getRank() ? 1 : 0;
  return between(to).add(c10d::OpType::SEND, tensors, {}, [tensor = tensors.front(), peer](c10d::Backend& gloo) {
    std::vector<at::Tensor> values{on_cpu(tensor)}, received{at::empty({1}, at::kByte)};
    gloo.send(values, peer, 0)->wait();
    gloo.recv(received, peer, 1)->wait();  // nothing buffers a message
  });
}

Communicator::WorkPtr Communicator::recv(std::vector<at::Tensor>& tensors, int from, int) {
  check_on_device(tensors.front());
  const int peer = from > getRank() ? 1 : 0;
  return between(from).add(c10d::OpType::RECV, {}, tensors, [tensor = tensors.front(), peer](c10d::Backend& gloo) {
    std::vector<at::Tensor> values{on_cpu(tensor)}, received{at::zeros({1}, at::kByte)};
    gloo.recv(values, peer, 0)->wait();
    gloo.send(received, peer, 1)->wait();
  });
}

/// As NCCL's: a reduction that the host waits for.
Communicator::WorkPtr Communicator::barrier(const c10d::BarrierOptions&) {
  std::vector<at::Tensor> one{at::zeros({1}, at::TensorOptions(current_device()))};
  auto work = allreduce(one, {});
  work->wait();
  timeline().synchronize(current_stream());
  note_synchronization();
  return work;
}

}  // namespace trainer::simulated
