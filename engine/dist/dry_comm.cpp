#include "engine/dist/dry_comm.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>

#include "engine/base/errors.h"
#include "engine/dist/dry_memory.h"
#include "engine/dist/dry_trace.h"

namespace trainer::dist {
namespace {

/// Note [Gloo's copies]
/// Gloo gathers into its own buffer, of the size of the result, and copies it out at the end. It reduces in place, but
/// its thread holds the tensor until it starts on the next one.
struct DryTransfer : Pending {
  explicit DryTransfer(std::optional<size_t> recorded, at::Tensor copy = {})
      : recorded_(recorded), copy_(std::move(copy)) {}
  void wait() override {
    copy_ = at::Tensor();
    if (recorded_) record(DryWait{*std::exchange(recorded_, std::nullopt)});
  }

 private:
  std::optional<size_t> recorded_;
  at::Tensor copy_;
};

class DryComm : public Comm {
 public:
  DryComm(int rank, std::vector<int> ranks, Transport transport)
      : rank_(rank), ranks_(std::move(ranks)), transport_(transport), stream_(next_dry_stream()) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(ranks_.size()); }
  at::Device device() const override { return at::kMeta; }

  std::unique_ptr<Pending> all_gather(const at::Tensor& full, const at::Tensor&) override {
    const CommunicationMemory communication;
    return std::make_unique<DryTransfer>(started(DryCollective::Kind::kAllGather, full),
                                         size() > 1 && over_gloo() ? at::empty_like(full) : at::Tensor());
  }
  void all_reduce(const at::Tensor& tensor, Reduce) override {
    if (size() > 1 && over_gloo()) last_ = tensor;
    DryTransfer(started(DryCollective::Kind::kAllReduce, tensor)).wait();
  }
  bool runs_beside() const override { return transport_ == Transport::kDevices; }
  bool has_reduce_scatter() const override { return runs_beside() || transport_ == Transport::kSharedMemory; }
  std::unique_ptr<Pending> send(const at::Tensor& tensor, int to) override {
    return std::make_unique<DryTransfer>(started(DryCollective::Kind::kSend, tensor, to));
  }
  std::unique_ptr<Pending> receive(const at::Tensor& tensor, int from) override {
    return std::make_unique<DryTransfer>(started(DryCollective::Kind::kReceive, tensor, from));
  }
  void barrier() override {}

  std::unique_ptr<Comm> group(const std::string&, const std::vector<int>& ranks) override {
    const auto mine = std::find(ranks.begin(), ranks.end(), rank_) - ranks.begin();
    std::vector<int> of_run;
    for (const int rank : ranks) of_run.push_back(ranks_.at(static_cast<size_t>(rank)));
    return std::make_unique<DryComm>(static_cast<int>(mine), std::move(of_run), transport_);
  }

  /// As in map_shared_memory, each rank counts its part.
  at::Tensor shared_memory(int64_t bytes) override {
    if (size() > 1 && transport_ != Transport::kSharedMemory) return {};
    at::DataPtr counted = dry_allocation(bytes, bytes / size());
    void* const context = counted.release_context();
    return at::from_blob(context, {bytes}, counted.get_deleter(), at::TensorOptions(at::kByte).device(at::kMeta),
                         at::Device(at::kMeta));
  }

  /// `peer`: of a message; -1: all ranks take part.
  std::optional<size_t> started(DryCollective::Kind kind, int64_t bytes, int peer = -1) const {
    if (size() == 1 || bytes == 0) return std::nullopt;
    std::vector<int> ranks = ranks_;
    if (peer >= 0) ranks = {ranks_[static_cast<size_t>(rank_)], ranks_.at(static_cast<size_t>(peer))};
    return record(DryCollective{kind, bytes, std::move(ranks), stream_});
  }

 protected:
  Scattered start_reduce_scatter(const at::Tensor& full) override {
    const CommunicationMemory communication;
    const int64_t share = full.numel() / size();
    const bool in_place = transport_ == Transport::kSharedMemory;
    return {in_place ? full.narrow(0, rank() * share, share) : at::empty({share}, full.options()),
            std::make_unique<DryTransfer>(started(DryCollective::Kind::kReduceScatter, full))};
  }

 private:
  bool over_gloo() const { return transport_ == Transport::kGloo; }

  /// Records a transfer of `tensor`; values on the host, and those of a single rank, aren't transfers.
  std::optional<size_t> started(DryCollective::Kind kind, const at::Tensor& tensor, int peer = -1) const {
    if (!tensor.is_meta()) return std::nullopt;
    return started(kind, static_cast<int64_t>(tensor.nbytes()), peer);
  }

  int rank_;
  std::vector<int> ranks_;  // as numbered in the run
  Transport transport_;
  int64_t stream_;
  at::Tensor last_;
};

}  // namespace

std::unique_ptr<Comm> dry_comm(int rank, int size, Transport transport) {
  std::vector<int> all(static_cast<size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  return std::make_unique<DryComm>(rank, std::move(all), transport);
}

std::unique_ptr<Pending> dry_all_reduce(Comm& comm, int64_t bytes) {
  const auto* const dry = dynamic_cast<const DryComm*>(&comm);
  if (dry == nullptr) throw InternalError("a dry all-reduce over a real communicator");
  return std::make_unique<DryTransfer>(dry->started(DryCollective::Kind::kAllReduce, bytes));
}

}  // namespace trainer::dist
