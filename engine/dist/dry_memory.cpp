#include "engine/dist/dry_memory.h"

#include <algorithm>

#include <ATen/ExpandUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "engine/dist/dry_attention.h"
#include "engine/dist/dry_norms.h"

namespace trainer::dist {
namespace {

thread_local bool t_communication = false, t_host = false;
thread_local DryBytes t_now, t_peak;  // a dry run has one thread, and ranks may be threads

/// Represents a storage's memory.
struct Counted {
  int64_t bytes;
  bool communication, host;

  void add(int64_t sign) const {
    if (host) {
      t_now.host += sign * bytes;
      t_peak.host = std::max(t_peak.host, t_now.host);
      return;
    }
    t_now.all += sign * bytes;
    if (communication) t_now.communication += sign * bytes;
    if (t_now.all > t_peak.all) t_peak = {t_now.all, t_now.communication, t_peak.host};
  }
};

void release(void* context) {
  const auto* const counted = static_cast<Counted*>(context);
  counted->add(-1);
  delete counted;
}

class DryAllocator : public at::Allocator {
 public:
  at::DataPtr allocate(size_t size) override {
    const auto bytes = static_cast<int64_t>(size);
    return dry_allocation(bytes, bytes);
  }
  at::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void*, const void*, std::size_t) const override {}
};

// Meta kernels of operators for which libtorch has none in C++ (Python's torch has them).
at::Tensor index_select_shape(const at::Tensor& from, int64_t dim, const at::Tensor& index) {
  auto shape = from.sizes().vec();
  shape.at(dim) = index.numel();
  return at::empty(shape, from.options());
}

at::Tensor embedding_gradient_shape(const at::Tensor& grad, const at::Tensor&, int64_t rows, int64_t, bool) {
  return at::empty({rows, grad.size(-1)}, grad.options());
}

at::Tensor where_shape(const at::Tensor& condition, const at::Tensor& then, const at::Tensor& otherwise) {
  const auto chosen = at::infer_size(then.sizes(), otherwise.sizes());
  return at::empty(at::infer_size(condition.sizes(), chosen), (then.dim() > 0 ? then : otherwise).options());
}

at::Tensor bucketize_shape(const at::Tensor& values, const at::Tensor&, bool int32, bool) {
  return at::empty(values.sizes(), values.options().dtype(int32 ? at::kInt : at::kLong));
}

/// For an operator that only writes to its arguments.
void do_nothing(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  torch::jit::drop(*stack, op.schema().arguments().size());
}

}  // namespace

void count_dry_memory() {
  static DryAllocator allocator;
  static torch::Library shapes(torch::Library::IMPL, "aten", c10::DispatchKey::Meta, __FILE__, __LINE__);
  static const bool once = [] {
    constexpr uint8_t kAboveTheDefault = 10;
    c10::SetAllocator(c10::DeviceType::Meta, &allocator, kAboveTheDefault);
    shapes.impl("index_select", index_select_shape);
    shapes.impl("embedding_dense_backward", embedding_gradient_shape);
    shapes.impl("where.self", where_shape);
    shapes.impl("bucketize.Tensor", bucketize_shape);
    add_attention_shapes(shapes);
    add_norm_shapes(shapes);
    shapes.impl("_fused_adamw_", torch::CppFunction::makeFromBoxedFunction<&do_nothing>());
    return true;
  }();
  static_cast<void>(once);
}

DryBytes dry_bytes() {
  return t_now;
}

DryBytes peak_dry_bytes() {
  return t_peak;
}

void reset_peak_dry_bytes() {
  t_peak = t_now;
}

at::DataPtr dry_allocation(int64_t bytes, int64_t counted) {
  const auto device = at::Device(c10::DeviceType::Meta);
  if (bytes == 0) return {nullptr, device};
  auto* const context = new Counted{counted, t_communication, t_host};
  context->add(1);
  return {context, context, &release, device};  // an address that nothing may read; libtorch rejects null
}

HostMemory::HostMemory(bool applies) : before_(t_host) {
  t_host = t_host || applies;
}

HostMemory::~HostMemory() {
  t_host = before_;
}

CommunicationMemory::CommunicationMemory() : before_(t_communication) {
  t_communication = true;
}

CommunicationMemory::~CommunicationMemory() {
  t_communication = before_;
}

}  // namespace trainer::dist
