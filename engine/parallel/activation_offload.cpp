#include "engine/parallel/activation_offload.h"

#include <utility>

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "engine/dist/dry_memory.h"

namespace trainer::parallel {
namespace {

constexpr bool kWithoutWaiting = true;

}  // namespace

OffloadedActivation::~OffloadedActivation() {
  if (there.defined()) copied.order_current_stream();
}

OffloadedActivationPtr ActivationOffload::save(const at::Tensor& x) {
  const at::NoGradGuard no_grad;
  if (!to_host_) {
    to_host_.emplace(x.device());
    to_device_.emplace(x.device());
  }
  const OffloadedActivationPtr earlier = latest_.lock();
  if (earlier && earlier->there.defined()) {
    earlier->copied.order_current_stream();
    earlier->there = at::Tensor();
  }
  auto saved = std::make_shared<OffloadedActivation>();
  saved->there = x.detach();
  {
    const dist::HostMemory host;
    const bool dry = x.is_meta();
    saved->here = at::empty(x.sizes(), x.options().device(dry ? at::kMeta : at::kCPU).pinned_memory(!dry));
  }
  saved->copied = to_host_->run([&] { saved->here.copy_(saved->there, kWithoutWaiting); });
  saved->before = earlier;
  latest_ = saved;
  return saved;
}

void ActivationOffload::fetch(OffloadedActivation& saved) {
  if (saved.there.defined() || !saved.here.defined()) return;
  saved.there = at::empty(saved.here.sizes(), saved.here.options().device(to_device_->device()).pinned_memory(false));
  saved.copied = to_device_->run([&] { saved.there.copy_(saved.here, kWithoutWaiting); });
}

at::Tensor ActivationOffload::restore(OffloadedActivation& saved) {
  const at::NoGradGuard no_grad;
  fetch(saved);
  saved.copied.order_current_stream();
  saved.here = at::Tensor();  // libtorch keeps pinned memory until its copies are done
  if (const OffloadedActivationPtr before = saved.before.lock()) fetch(*before);
  return std::exchange(saved.there, at::Tensor());
}

}  // namespace trainer::parallel
