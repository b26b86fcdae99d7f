#include "engine/dist/dry_operators.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>

#include "engine/dist/dry_trace.h"

namespace trainer::dist {
namespace {

// Note [Counting operators]
// The dispatcher tells an observer of every call, with arguments and results. A call that makes further calls which
// launch kernels is a composition, and only its parts count. Of the others, one that writes to an argument, or returns
// a tensor with memory of its own, launches a kernel; the rest are views. The meta device takes the same paths through
// libtorch's compositions as a GPU, apart from a few fused kernels.

/// What an operator's schema and name say.
struct OperatorFacts {
  bool allocates = false;     // without touching the memory
  bool overwrites = false;    // doesn't read the arguments that it writes
  bool picks = false;         // reads as much as it writes, at indices
  bool adds_at = false;       // changes only the elements at indices
  std::vector<bool> written;  // by argument
};

bool one_of(const std::string& name, std::initializer_list<const char*> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

OperatorFacts facts_of(const std::string& name, const c10::FunctionSchema& schema) {
  OperatorFacts facts;
  facts.allocates = name.starts_with("aten::empty") || name.starts_with("aten::new_empty") ||
                    one_of(name, {"aten::resize_", "aten::set_"});
  facts.overwrites = one_of(name, {"aten::copy_", "aten::fill_", "aten::zero_"}) || schema.overload_name() == "out";
  facts.picks = one_of(name, {"aten::index_select", "aten::gather", "aten::embedding", "aten::index"});
  facts.adds_at = one_of(name, {"aten::scatter_add_", "aten::index_add_"});
  for (const c10::Argument& argument : schema.arguments())
    facts.written.push_back(argument.alias_info() != nullptr && argument.alias_info()->isWrite());
  return facts;
}

const OperatorFacts& known_facts(const at::RecordFunction& call) {
  thread_local std::unordered_map<std::string, OperatorFacts> known;
  const std::string name = call.name();
  const std::string full = name + "." + call.overload_name();
  auto found = known.find(full);
  if (found == known.end()) found = known.emplace(full, facts_of(name, *call.operator_schema())).first;
  return found->second;
}

/// Bytes of the elements of a tensor that lie in memory once.
int64_t unique_bytes(const at::Tensor& tensor) {
  int64_t elements = 1;
  for (int64_t i = 0; i < tensor.dim(); ++i)
    if (tensor.stride(i) != 0) elements *= tensor.size(i);
  return tensor.numel() == 0 ? 0 : elements * static_cast<int64_t>(tensor.element_size());
}

template <class F>
void for_each_tensor(const c10::IValue& value, const F& f) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) f(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) f(tensor);
  } else if (value.isList()) {  // of optional tensors
    for (const c10::IValue& one : value.toListRef())
      if (one.isTensor() && one.toTensor().defined()) f(one.toTensor());
  }
}

/// A call of attention under way: its number, and for fused attention its FLOPs forward, and those that a mask hides.
struct Attention {
  int64_t number = 0, flops = 0, hidden = 0;
};
thread_local int64_t t_attentions = 0;  // calls so far
thread_local Attention t_attention;

/// Sets the FLOPs of fused attention: for packed samples, whose lengths only the caller knows, those of the scope.
/// Backward has five products of that size, forward two.
void count_attention(DryOperator& op, c10::ArrayRef<const c10::IValue> arguments) {
  const bool flash = op.name.starts_with("aten::_flash_attention_") || op.name.starts_with("aten::_cudnn_attention_");
  const bool backward = op.name.ends_with("_backward");
  if (!flash && !op.name.starts_with("aten::_efficient_attention_")) return;
  const at::Tensor &q = arguments[backward ? 1 : 0].toTensor(), &k = arguments[backward ? 2 : 1].toTensor();
  const bool packed = flash || arguments[backward ? 6 : 4].isTensor();
  op.flops = packed ? t_attention.flops : 4 * q.numel() * k.size(1);
  op.hidden_flops = packed ? t_attention.hidden : 0;
  if (backward) op.flops = op.flops / 2 * 5, op.hidden_flops = op.hidden_flops / 2 * 5;
  op.dtype = q.scalar_type();
}

/// FLOPs of a matrix product; 0 for other operators.
int64_t flops_of(const std::string& name, c10::ArrayRef<const c10::IValue> arguments) {
  const bool added = one_of(name, {"aten::addmm", "aten::addmm_", "aten::baddbmm", "aten::baddbmm_"});
  if (!added && !one_of(name, {"aten::mm", "aten::bmm"})) return 0;
  const at::Tensor &left = arguments[added ? 1 : 0].toTensor(), &right = arguments[added ? 2 : 1].toTensor();
  return 2 * left.numel() * right.size(-1);
}

/// Kernels of an operator: fused optimizers take at most 36 tensors and 320 blocks of 65,536 values each in one.
int64_t launches_of(const std::string& name, c10::ArrayRef<const c10::IValue> arguments) {
  if (!name.starts_with("aten::_fused_") || arguments.empty() || !arguments[0].isTensorList()) return 1;
  int64_t tensors = 0, blocks = 0;
  for_each_tensor(arguments[0], [&](const at::Tensor& tensor) {
    ++tensors;
    blocks += (tensor.numel() + 65535) / 65536;
  });
  return std::max((tensors + 35) / 36, (blocks + 319) / 320);
}

/// A call that has begun.
struct OpenCall : at::ObserverContext {
  const OperatorFacts* facts = nullptr;
  DryOperator op;
  std::vector<const void*> storages;  // of its arguments
  int64_t largest = 0;                // bytes of the largest argument that isn't written
  bool writes = false, on_meta = false, has_read = false;
  size_t before = 0;  // operators recorded when it began
};

/// A named scope of ours.
struct OpenAttention : at::ObserverContext {
  Attention outer;
};

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& call) {
  if (call.scope() == at::RecordScope::USER_SCOPE) {
    if (std::string(call.name()) != "attention") return nullptr;
    auto scope = std::make_unique<OpenAttention>();
    scope->outer = std::exchange(t_attention, {.number = ++t_attentions});
    if (const auto flops = call.inputs(); flops.size() == 2)
      t_attention.flops = flops[0].toInt(), t_attention.hidden = flops[1].toInt();
    return scope;
  }
  if (!call.operator_schema()) return nullptr;  // a node of autograd
  auto open = std::make_unique<OpenCall>();
  open->facts = &known_facts(call);
  open->before = recorded_operators();
  open->op.name = call.name();
  if (open->facts->allocates) return open;
  const auto arguments = call.inputs();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const bool written = i < open->facts->written.size() && open->facts->written[i];
    for_each_tensor(arguments[i], [&](const at::Tensor& tensor) {
      open->on_meta = open->on_meta || tensor.is_meta();
      if (tensor.has_storage()) open->storages.push_back(tensor.storage().unsafeGetStorageImpl());
      if (!written && !std::exchange(open->has_read, true)) open->op.dtype = tensor.scalar_type();
      const int64_t bytes = unique_bytes(tensor);
      open->writes = open->writes || written;
      if (!written) open->largest = std::max(open->largest, bytes);
      if (!written || open->facts->overwrites)
        open->op.bytes += bytes;
      else if (!open->facts->adds_at)
        open->op.bytes += 2 * bytes;
    });
  }
  open->op.flops = flops_of(open->op.name, arguments);
  count_attention(open->op, arguments);
  open->op.launches = launches_of(open->op.name, arguments);
  if (open->facts->adds_at) open->op.bytes += open->largest;  // reads and writes as much as it adds
  return open;
}

void end(const at::RecordFunction& call, at::ObserverContext* context) {
  if (auto* const scope = dynamic_cast<OpenAttention*>(context)) {
    t_attention = scope->outer;
    return;
  }
  auto* const open = dynamic_cast<OpenCall*>(context);
  if (open == nullptr || open->facts->allocates || recorded_operators() > open->before) return;
  int64_t made = 0;
  for (const c10::IValue& output : call.outputs())
    for_each_tensor(output, [&](const at::Tensor& tensor) {
      open->on_meta = open->on_meta || tensor.is_meta();
      const void* const storage = tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
      if (std::find(open->storages.begin(), open->storages.end(), storage) == open->storages.end())
        made += unique_bytes(tensor);
    });
  if (!open->on_meta || (!open->writes && made == 0)) return;
  if (open->facts->picks) open->op.bytes = std::min(open->op.bytes, made);
  open->op.bytes += made;
  if (open->op.bytes == 0) return;  // empty tensors
  open->op.attention = t_attention.number;
  record(std::move(open->op));
}

}  // namespace

uint64_t record_operators() {
  return at::addThreadLocalCallback(at::RecordFunctionCallback(&begin, &end)
                                        .needsInputs(true)
                                        .needsOutputs(true)
                                        .scopes({at::RecordScope::FUNCTION, at::RecordScope::USER_SCOPE}));
}

void stop_recording_operators(uint64_t handle) {
  at::removeCallback(handle);
}

}  // namespace trainer::dist
