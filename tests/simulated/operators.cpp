// The device's operators: libtorch's for the CPU, with every access to memory noted on the timeline.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/view_native.h>
#include <ATen/record_function.h>
#include <torch/library.h>

#include "tests/simulated/device.h"
#include "tests/simulated/graphs.h"
#include "tests/simulated/memory.h"
#include "tests/simulated/pinned.h"

namespace trainer::simulated {
namespace {

std::atomic<int64_t> launches{0}, synchronizations{0}, copies{0};
struct {
  std::mutex mutex;
  std::map<std::string, int64_t> launches;
} names;
thread_local bool within_operator = false;  // copies of its arguments aren't the host's

struct Hooks : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return static_cast<c10::DeviceIndex>(device_count()); }
  c10::DeviceIndex getCurrentDevice() const override { return current_device().index(); }
  bool isPinnedPtr(const void* address) const override { return is_pinned(address); }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override { return default_generator(index); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &pinned_memory(); }
};

at::Tensor empty(c10::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                 std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, &device_memory(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   dtype.value_or(at::kFloat), format);
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(size, stride, &device_memory(),
                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           dtype.value_or(at::kFloat));
}

void host_waits() {
  note_synchronization();
  timeline().synchronize(current_stream());
  timeline().throw_errors();
}

bool in_pinned_memory(const at::Tensor& tensor) {
  return tensor.is_cpu() && is_pinned(tensor.unsafeGetTensorImpl()->data());
}

/// CUDA's rules: the host waits for a copy to unpinned memory, and where it converts or rearranges values itself.
bool host_waits_for_copy(const at::Tensor& from, const at::Tensor& to) {
  if (!to.is_cpu()) return false;
  return !in_pinned_memory(to) || from.scalar_type() != to.scalar_type() || !to.is_contiguous();
}

/// A copy that a recorded stream is given.
void record_copy(const at::Tensor& from, const at::Tensor& to, bool waits) {
  if (to.is_cpu()) refuse_while_recording("a copy to the host");
  if (waits || (from.is_cpu() && !in_pinned_memory(from))) refuse_while_recording("a copy from unpinned memory");
  record_step(ranges_of({from}), ranges_of({to}), [from = on_cpu(alias_of(from)), to = on_cpu(to)] { to.copy_(from); });
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  const bool between = from.is_cpu() || to.is_cpu();
  const bool waits = between && (!non_blocking || host_waits_for_copy(from, to));
  const bool noted = !within_operator, records = noted && recording();
  if (records) {
    record_copy(from, to, waits);
  } else if (noted) {
    note_launch("a copy", {from}, {to});
    if (between) ++copies;
    if (waits) host_waits();
  }
  const WithinOperator guard;
  if (to.is_cpu() && !waits && guard.outermost()) {
    const at::Tensor values = on_cpu(from).contiguous();
    const auto* const bytes = static_cast<const char*>(values.const_data_ptr());
    void* const at = on_cpu(to).mutable_data_ptr();
    timeline().writes_later(current_stream(), ranges_of({to}).front(), at, {bytes, bytes + values.nbytes()});
    std::memset(at, 0xFF, to.nbytes());
  } else {
    on_cpu(to).copy_(on_cpu(from));
  }
  return to;
}

const at::Tensor& resized(const at::Tensor& tensor, c10::IntArrayRef size, std::optional<at::MemoryFormat>) {
  if (tensor.sizes() == size) return tensor;
  const at::Tensor fresh = empty(size, tensor.scalar_type(), {}, {}, {}, {});
  tensor.unsafeGetTensorImpl()->set_storage_keep_dtype(fresh.storage());
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(size);
  return tensor;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  resized(to, from.sizes(), std::nullopt);
  return copy_from(from, to, false);
}

void append_tensors(const c10::IValue& value, std::vector<at::Tensor>& to) {
  if (value.isTensor()) {
    if (const at::Tensor& tensor = value.toTensor(); tensor.defined()) to.push_back(tensor);
  } else if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) append_tensors(item, to);
  }
}

/// Whether CUDA's operator makes the host wait: its result is a value, or has a size that depends on values.
bool host_waits_in(const c10::FunctionSchema& schema, const std::vector<at::Tensor>& reads) {
  static const std::set<std::string> sized_by_values{"aten::nonzero", "aten::masked_select", "aten::_unique2",
                                                     "aten::unique_dim", "aten::unique_consecutive",
                                                     "aten::repeat_interleave"};
  if (sized_by_values.contains(schema.name())) return true;
  if (schema.name().starts_with("aten::index") || schema.name() == "aten::_index_put_impl_")
    for (const at::Tensor& tensor : reads)
      if (tensor.scalar_type() == at::kBool && &tensor != &reads.front()) return true;
  for (const c10::Argument& result : schema.returns())
    if (result.type()->kind() == c10::TypeKind::NumberType || result.type()->kind() == c10::TypeKind::BoolType)
      return true;
  return false;
}

/// Whether an operator uses the values of its arguments: others make views, or ask for shapes and kinds of memory.
bool uses_values(const c10::FunctionSchema& schema) {
  const std::string& name = schema.name();
  if (name.ends_with("_like") || name.starts_with("aten::new_") || name.starts_with("aten::is_")) return false;
  return std::any_of(schema.returns().begin(), schema.returns().end(), [](const c10::Argument& result) {
    const c10::TypeKind kind = result.type()->kind();
    return kind != c10::TypeKind::IntType && kind != c10::TypeKind::StringType;
  });
}

/// How an operator of the host uses its arguments.
struct HostUse {
  bool values = false;         // false: it uses no values
  std::vector<bool> reads, writes;
};

/// Remembered by name, because RecordFunction copies the schema each time.
const HostUse& host_use(const at::RecordFunction& call) {
  thread_local std::unordered_map<std::string, HostUse> known;
  const auto [found, is_new] = known.try_emplace(std::string(call.name()) + "." + call.overload_name());
  HostUse& use = found->second;
  if (!is_new) return use;
  const auto schema = call.operator_schema();
  use.values = schema && uses_values(*schema);
  if (!use.values) return use;
  for (const c10::Argument& argument : schema->arguments()) {
    const c10::AliasInfo* const alias = argument.alias_info();
    use.reads.push_back(alias == nullptr);
    use.writes.push_back(alias != nullptr && alias->isWrite());
  }
  return use;
}

/// Operators of the host alone, on pinned memory.
std::unique_ptr<at::ObserverContext> note_operator_of_host(const at::RecordFunction& call) {
  if (within_operator || !any_pinned()) return nullptr;
  const HostUse& use = host_use(call);
  if (!use.values) return nullptr;
  std::vector<at::Tensor> reads, writes;
  const auto arguments = call.inputs();
  for (size_t i = 0; i < arguments.size() && i < use.reads.size(); ++i)
    if (use.reads[i] || use.writes[i]) append_tensors(arguments[i], use.writes[i] ? writes : reads);
  const auto on_device = [](const at::Tensor& tensor) { return tensor.device().type() == kType; };
  if (std::any_of(reads.begin(), reads.end(), on_device) || std::any_of(writes.begin(), writes.end(), on_device))
    return nullptr;
  timeline().host_uses(call.name(), ranges_of(reads), ranges_of(writes));
  return nullptr;
}

/// The value with aliases of its tensors. Tensors of the host are those of the recording.
c10::IValue without_owner(const c10::IValue& value) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    if (!tensor.defined()) return value;
    if (tensor.is_cpu() && tensor.dim() > 0) refuse_while_recording("an operator on a tensor of the host");
    return tensor.is_cpu() ? tensor.clone() : alias_of(tensor);
  }
  if (!value.isList()) return value;
  c10::List<c10::IValue> copy = value.toList().copy();
  for (size_t i = 0; i < copy.size(); ++i) copy.set(i, without_owner(copy.get(i)));
  return copy;
}

/// An operator that a recorded stream was given: its arguments then, and its results.
class RecordedOperator {
 public:
  RecordedOperator(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments) : op_(op) {
    for (const c10::IValue& argument : arguments) arguments_.push_back(without_owner(argument));
  }
  void set_results(const torch::jit::Stack& stack) {
    for (const at::Tensor& result : results_on(stack)) results_.push_back(on_cpu(result));
  }
  void operator()() const {
    torch::jit::Stack stack = arguments_;
    at::native::cpu_fallback(op_, &stack);
    const std::vector<at::Tensor> computed = results_on(stack);
    for (size_t i = 0; i < results_.size(); ++i)  // one that is an argument may have got other memory: it was resized
      if (const at::Tensor from = on_cpu(computed[i]); from.data_ptr() != results_[i].data_ptr()) results_[i].copy_(from);
  }

 private:
  std::vector<at::Tensor> results_on(const torch::jit::Stack& stack) const {
    const size_t count = op_.schema().returns().size();
    std::vector<at::Tensor> found;
    for (size_t i = 0; i < count; ++i) append_tensors(stack[stack.size() - count + i], found);
    return found;
  }

  c10::OperatorHandle op_;
  torch::jit::Stack arguments_;
  std::vector<at::Tensor> results_;
};

void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  const size_t count = schema.arguments().size(), first = stack->size() - count;
  std::vector<at::Tensor> reads, writes, results;
  for (size_t i = 0; i < count; ++i) {
    const c10::AliasInfo* const alias = schema.arguments()[i].alias_info();
    append_tensors((*stack)[first + i], alias != nullptr && alias->isWrite() ? writes : reads);
  }
  const bool top = !within_operator, records = top && recording();
  const bool waits = top && host_waits_in(schema, reads);
  if (waits) refuse_while_recording(schema.name() + ", for which the host waits");
  std::optional<RecordedOperator> recorded;
  if (records) recorded.emplace(op, c10::ArrayRef<c10::IValue>(*stack).slice(first));
  if (top && !records) note_launch(schema.name(), reads, writes);
  {
    const WithinOperator guard;
    at::native::cpu_fallback(op, stack);
  }
  if (!top) return;
  for (size_t i = 0; i < schema.returns().size(); ++i)
    append_tensors((*stack)[stack->size() - schema.returns().size() + i], results);
  if (records) {
    recorded->set_results(*stack);
    writes.insert(writes.end(), results.begin(), results.end());
    record_step(ranges_of(reads), ranges_of(writes), *recorded);
    return;
  }
  timeline().launch(current_stream(), schema.name(), {}, ranges_of(results));  // the same launch
  if (waits) host_waits();
}

[[maybe_unused]] const bool kKnown = [] {
  static Hooks hooks;
  c10::register_privateuse1_backend("simulated");  // otherwise autograd doesn't recognize the device
  at::RegisterPrivateUse1HooksInterface(&hooks);
  c10::SetAllocator(kType, &device_memory());
  at::addGlobalCallback(at::RecordFunctionCallback(&note_operator_of_host).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
  return true;
}();

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("resize_", &resized);
  m.impl("_copy_from", &copy_from);
  m.impl("_copy_from_and_resize", &copy_from_and_resize);
  m.impl("as_strided", &at::native::as_strided_tensorimpl);
  m.impl("view", static_cast<at::Tensor (*)(const at::Tensor&, c10::IntArrayRef)>(&at::native::view));
  m.impl("_reshape_alias", &at::native::_reshape_alias);
  // CUDA has kernels for these; libtorch composes them of others on devices that it doesn't know.
  for (const char* name : {"silu_backward", "_foreach_norm.Scalar", "_foreach_mul_.Scalar", "_foreach_zero_"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());
}

}  // namespace

Counters counters() {
  return {launches, synchronizations, copies};
}

std::map<std::string, int64_t> launches_by_name() {
  const std::lock_guard lock(names.mutex);
  return names.launches;
}

void note_synchronization() {
  refuse_while_recording("a wait of the host");
  ++synchronizations;
}

WithinOperator::WithinOperator() : before_(std::exchange(within_operator, true)) {}
WithinOperator::~WithinOperator() {
  within_operator = before_;
}

void note_launch(const std::string& what, const std::vector<at::Tensor>& reads, const std::vector<at::Tensor>& writes) {
  note_kernel(what, ranges_of(reads), ranges_of(writes));
}

void note_kernel(const std::string& what, const std::vector<Range>& reads, const std::vector<Range>& writes) {
  ++launches;
  {
    const std::lock_guard lock(names.mutex);
    ++names.launches[what];
  }
  timeline().launch(current_stream(), what, reads, writes);
}

void launch(const std::string& what, const std::vector<at::Tensor>& reads, const std::vector<at::Tensor>& writes,
            const std::function<void()>& run) {
  launch_kernel(what, ranges_of(reads), ranges_of(writes), run);
}

void launch_kernel(const std::string& what, const std::vector<Range>& reads, const std::vector<Range>& writes,
                   const std::function<void()>& run) {
  if (recording())
    record_step(reads, writes, run);
  else
    note_kernel(what, reads, writes);
  run();
}

at::Tensor alias_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  if (tensor.is_cpu())
    return at::from_blob(tensor.mutable_data_ptr(), tensor.sizes(), tensor.strides(), tensor.options());
  const auto* const owner = tensor.unsafeGetTensorImpl();
  const auto bytes = static_cast<int64_t>(tensor.storage().nbytes());
  c10::Storage storage(c10::Storage::use_byte_size_t(), bytes,
                       at::DataPtr(tensor.storage().mutable_data(), tensor.device()), nullptr, /*resizable=*/false);
  at::Tensor alias = at::detail::make_tensor<at::TensorImpl>(std::move(storage), owner->key_set(), owner->dtype());
  alias.unsafeGetTensorImpl()->set_storage_offset(tensor.storage_offset());
  alias.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides());
  return alias;
}

at::Tensor on_cpu(const at::Tensor& tensor) {
  if (tensor.is_cpu() && !in_pinned_memory(tensor)) return tensor;
  const void* const address = tensor.unsafeGetTensorImpl()->data();
  return at::from_blob(tensor.is_cpu() ? as_device_sees(address) : found(address), tensor.sizes(), tensor.strides(),
                       at::TensorOptions(tensor.scalar_type()));
}

std::vector<Range> ranges_of(const std::vector<at::Tensor>& tensors) {
  std::vector<Range> ranges;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined() || tensor.numel() == 0) continue;
    if (tensor.device().type() != kType && !in_pinned_memory(tensor)) continue;
    int64_t last = 0;
    for (int64_t i = 0; i < tensor.dim(); ++i) last += (tensor.size(i) - 1) * tensor.stride(i);
    const auto begin = reinterpret_cast<uintptr_t>(tensor.unsafeGetTensorImpl()->data());
    ranges.push_back({begin, begin + static_cast<uintptr_t>((last + 1) * tensor.element_size())});
  }
  return ranges;
}

}  // namespace trainer::simulated
