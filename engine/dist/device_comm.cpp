#include "engine/dist/device_comm.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include "engine/dist/forwarding_comm.h"

namespace trainer::dist {
namespace {

at::Tensor like_on_cpu(const at::Tensor& tensor) {
  return at::empty_like(tensor, tensor.options().device(at::kCPU));
}

/// A transfer of a tensor's copy on the CPU.
class ByCopy : public Pending {
 public:
  /// `to`: receives the copy's values at the end; may be undefined.
  ByCopy(at::Tensor copy, at::Tensor to) : copy_(std::move(copy)), to_(std::move(to)) {}
  void start(std::unique_ptr<Pending> transfer) { transfer_ = std::move(transfer); }
  void wait() override {
    transfer_->wait();
    if (to_.defined()) to_.copy_(copy_);
  }

 private:
  at::Tensor copy_, to_;
  std::unique_ptr<Pending> transfer_;
};

/// Forwards to the communicator that c10d's own Reducer must use.
class DeviceComm : public ForwardingComm {
 public:
  DeviceComm(std::unique_ptr<Comm> host, std::unique_ptr<Comm> devices, at::Device device)
      : ForwardingComm(devices ? std::move(devices) : std::move(host)), host_(std::move(host)), device_(device) {}

  at::Device device() const override { return device_; }

  std::unique_ptr<Pending> all_gather(const at::Tensor& full, const at::Tensor& shard) override {
    if (!by_way_of_cpu(full)) return fitting(full).all_gather(full, shard);
    const at::Tensor copy = like_on_cpu(full), mine = shard.to(at::kCPU);
    auto pending = std::make_unique<ByCopy>(copy, full);
    pending->start(inner().all_gather(copy, mine));
    return pending;
  }

  void all_reduce(const at::Tensor& tensor, Reduce op) override {
    if (!by_way_of_cpu(tensor)) return fitting(tensor).all_reduce(tensor, op);
    const at::Tensor copy = tensor.to(at::kCPU);
    inner().all_reduce(copy, op);
    tensor.copy_(copy);
  }

  bool runs_beside() const override { return host_ != nullptr && inner().runs_beside(); }

  std::unique_ptr<Pending> send(const at::Tensor& tensor, int to) override {
    if (!by_way_of_cpu(tensor)) return fitting(tensor).send(tensor, to);
    const at::Tensor copy = tensor.to(at::kCPU);
    auto pending = std::make_unique<ByCopy>(copy, at::Tensor());
    pending->start(inner().send(copy, to));
    return pending;
  }

  std::unique_ptr<Pending> receive(const at::Tensor& tensor, int from) override {
    if (!by_way_of_cpu(tensor)) return fitting(tensor).receive(tensor, from);
    const at::Tensor copy = like_on_cpu(tensor);
    auto pending = std::make_unique<ByCopy>(copy, tensor);
    pending->start(inner().receive(copy, from));
    return pending;
  }

  void barrier() override { (host_ ? *host_ : inner()).barrier(); }

  /// Processes don't share a device's memory; a single rank doesn't need to.
  at::Tensor shared_memory(int64_t bytes) override {
    if (size() > 1 || host_) return {};
    return at::zeros({bytes}, at::TensorOptions(at::kByte).device(device_));
  }

  std::unique_ptr<Comm> group(const std::string& name, const std::vector<int>& ranks) override {
    auto host = host_ && ranks.size() > 1 ? host_->group(name, ranks) : nullptr;
    auto own = inner().group(name, ranks);
    return host ? device_comm(std::move(host), std::move(own), device_) : device_comm(std::move(own), nullptr, device_);
  }

 protected:
  Scattered start_reduce_scatter(const at::Tensor& full) override { return fitting(full).reduce_scatter(full); }

 private:
  /// Without a transport between devices, a tensor on a device is sent as a copy on the CPU.
  bool by_way_of_cpu(const at::Tensor& tensor) const { return host_ == nullptr && !tensor.is_cpu() && size() > 1; }
  Comm& fitting(const at::Tensor& tensor) const { return host_ && tensor.is_cpu() ? *host_ : inner(); }

  std::unique_ptr<Comm> host_;  // null: inner() takes its role
  at::Device device_;
};

}  // namespace

std::unique_ptr<Comm> device_comm(std::unique_ptr<Comm> host, std::unique_ptr<Comm> devices, at::Device device) {
  return std::make_unique<DeviceComm>(std::move(host), std::move(devices), device);
}

}  // namespace trainer::dist
