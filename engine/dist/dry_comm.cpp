#include "engine/dist/dry_comm.h"

#include <algorithm>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>

#include "engine/dist/dry_memory.h"

namespace trainer::dist {
namespace {

/// Note [Gloo's copies]
/// Gloo gathers into its own buffer, of the size of the result, and copies it out at the end. It reduces in place, but
/// its thread holds the tensor until it starts on the next one.
struct DryGather : Pending {
  explicit DryGather(at::Tensor copy) : copy_(std::move(copy)) {}
  void wait() override { copy_ = at::Tensor(); }

 private:
  at::Tensor copy_;
};

class DryComm : public Comm {
 public:
  DryComm(int rank, int size, Transport transport) : rank_(rank), size_(size), transport_(transport) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  at::Device device() const override { return at::kMeta; }

  std::unique_ptr<Pending> all_gather(const at::Tensor& full, const at::Tensor&) override {
    const CommunicationMemory communication;
    return std::make_unique<DryGather>(size_ > 1 && over_gloo() ? at::empty_like(full) : at::Tensor());
  }
  void all_reduce(const at::Tensor& tensor, Reduce) override {
    if (size_ > 1 && over_gloo()) last_ = tensor;
  }
  Scattered reduce_scatter(const at::Tensor& full) override {
    if (!runs_beside()) return Comm::reduce_scatter(full);
    const CommunicationMemory communication;
    return {at::empty({full.numel() / size_}, full.options()), std::make_unique<DryGather>(at::Tensor())};
  }
  bool runs_beside() const override { return !over_gloo(); }
  std::unique_ptr<Pending> send(const at::Tensor&, int) override { return std::make_unique<DryGather>(at::Tensor()); }
  std::unique_ptr<Pending> receive(const at::Tensor&, int) override {
    return std::make_unique<DryGather>(at::Tensor());
  }
  void barrier() override {}

  std::unique_ptr<Comm> group(const std::string&, const std::vector<int>& ranks) override {
    const auto mine = std::find(ranks.begin(), ranks.end(), rank_) - ranks.begin();
    return dry_comm(static_cast<int>(mine), static_cast<int>(ranks.size()), transport_);
  }

  /// As in map_shared_memory, each rank counts its part.
  at::Tensor shared_memory(int64_t bytes) override {
    if (size_ > 1 && transport_ != Transport::kSharedMemory) return {};
    at::DataPtr counted = dry_allocation(bytes, bytes / size_);
    void* const context = counted.release_context();
    return at::from_blob(context, {bytes}, counted.get_deleter(), at::TensorOptions(at::kByte).device(at::kMeta),
                         at::Device(at::kMeta));
  }

 private:
  bool over_gloo() const { return transport_ != Transport::kDevices; }

  int rank_, size_;
  Transport transport_;
  at::Tensor last_;
};

}  // namespace

std::unique_ptr<Comm> dry_comm(int rank, int size, Transport transport) {
  return std::make_unique<DryComm>(rank, size, transport);
}

}  // namespace trainer::dist
