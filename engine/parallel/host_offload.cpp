#include "engine/parallel/host_offload.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "engine/dist/dry_memory.h"

namespace trainer::parallel {
namespace {

constexpr bool kNonBlocking = true;

at::Tensor empty_on(at::Device device, const at::Tensor& like, at::ScalarType dtype) {
  return at::empty({like.numel()}, at::TensorOptions(device).dtype(dtype));
}

}  // namespace

HostOffload::HostOffload(at::Device device, bool pinned)
    : device_(device), pinned_(pinned), to_device_(device), to_host_(device) {}

at::Device HostOffload::home() const {
  return device_.is_meta() ? device_ : at::Device(at::kCPU);
}

at::Tensor HostOffload::zeros(int64_t n, at::ScalarType dtype) const {
  const dist::HostMemory host;
  return at::zeros({n}, at::TensorOptions(home()).dtype(dtype).pinned_memory(pinned_ && !device_.is_meta()));
}

void HostOffload::Gather::wait() {
  if (pending) pending->wait();
  started.order_current_stream();  // a single rank only copies
  pending.reset();
  memory.clear();
}

HostOffload::Gather HostOffload::gather(const at::Tensor& full, const at::Tensor& shard, dist::Comm& comm) {
  const dist::CommunicationMemory communication;
  Gather gather;
  const bool converts = shard.scalar_type() != full.scalar_type();
  const bool alone = comm.size() == 1;
  const at::Tensor there = alone && !converts ? full : empty_on(device_, shard, shard.scalar_type());
  const at::Tensor sent = alone ? full : converts ? empty_on(device_, shard, full.scalar_type()) : there;
  gather.memory = {there, sent};
  gather.started = to_device_.run([&] {
    there.copy_(shard, kNonBlocking);
    if (converts) sent.copy_(there);
    if (!alone) gather.pending = comm.all_gather(full, sent);
  });
  return gather;
}

template <class F>
void HostOffload::start(std::vector<at::Tensor> memory, const F& work) {
  left_.order_current_stream();
  leaving_ = std::move(memory);
  left_ = to_host_.run(work);
}

void HostOffload::send_gradient(const at::Tensor& shard, const at::Tensor& sum, bool add) {
  const dist::CommunicationMemory communication;
  const bool converts = add || shard.scalar_type() != sum.scalar_type();
  const at::Tensor sent = converts ? empty_on(device_, shard, sum.scalar_type()) : shard;
  start({shard, sent}, [&] {
    if (add)
      sent.copy_(sum, kNonBlocking).add_(shard);
    else if (converts)
      sent.copy_(shard);
    sum.copy_(sent, kNonBlocking);
  });
}

void HostOffload::all_reduce(const at::Tensor& sum, at::ScalarType as, dist::Comm& comm) {
  const dist::CommunicationMemory communication;
  const bool converts = as != sum.scalar_type();
  const at::Tensor there = empty_on(device_, sum, sum.scalar_type());
  const at::Tensor reduced = converts ? empty_on(device_, sum, as) : there;
  start({there, reduced}, [&] {
    there.copy_(sum, kNonBlocking);
    if (converts) reduced.copy_(there);
    comm.all_reduce(reduced);
    if (converts) there.copy_(reduced);
    sum.copy_(there, kNonBlocking);
  });
}

void HostOffload::wait() {
  const dist::Moment copied = to_device_.run([] {});  // a unit may have been gathered ahead in vain
  to_host_.run([&] { copied.order_current_stream(); }).wait();
  leaving_.clear();
  left_ = {};
}

}  // namespace trainer::parallel
