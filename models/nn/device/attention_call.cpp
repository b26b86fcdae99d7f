#include "models/nn/device/attention_call.h"

#include <mutex>

#include <ATen/Context.h>
#include <ATen/core/Generator.h>

#include "models/nn/device/layout_tensors.h"

namespace trainer::nn::device {
namespace {

constexpr const char* kScope = "attention";

/// A step of SplitMix64. Source: Steele, Lea and Flood, OOPSLA 2014.
uint64_t mixed(uint64_t state, uint64_t value) {
  uint64_t z = (state ^ value) + 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

}  // namespace

int64_t AttentionCall::flops() const {
  int64_t pairs = 0;
  for (int64_t s = 0; s < queries->samples(); ++s) pairs += queries->spans[s].length * keys->spans[s].length;
  return 4 * pairs * options.heads * width;
}

int64_t AttentionCall::hidden_flops() const {
  const int64_t window = options.window;
  int64_t pairs = 0;
  for (int64_t s = 0; (options.causal || window > 0) && s < queries->samples(); ++s) {
    const int64_t count = keys->spans[s].length, before = count - queries->spans[s].length;
    for (int64_t i = 0; i < queries->spans[s].length; ++i) {
      const int64_t position = before + i;
      const int64_t first = window > 0 ? std::max<int64_t>(0, position - window + 1) : 0;
      const int64_t end = options.causal ? position + 1 : window > 0 ? std::min(count, position + window) : count;
      pairs += count - (end - first);
    }
  }
  return 4 * pairs * options.heads * width;
}

AttentionScope::AttentionScope(const AttentionCall& call) : scope_(at::RecordScope::USER_SCOPE) {
  if (!scope_.isActive()) return;
  flops_[0] = call.flops();
  flops_[1] = call.hidden_flops();
  scope_.before(kScope, c10::ArrayRef<const c10::IValue>(flops_, 2));
}

at::Tensor by_head(const at::Tensor& x, int64_t width) {
  return (x.stride(1) == 1 ? x : x.contiguous()).unflatten(1, {x.size(1) / width, width});
}

at::Tensor for_each_head(const at::Tensor& x, const AttentionCall& call) {
  if (call.group() == 1) return x;
  // Contiguous even for one head of keys: without a stride between heads, the operators take another path.
  return x.unsqueeze(2)
      .expand({-1, -1, call.group(), -1})
      .reshape({x.size(0), call.options.heads, call.width})
      .contiguous();
}

at::Tensor summed_over_groups(const at::Tensor& grad, const AttentionCall& call) {
  return call.group() == 1 ? grad : grad.unflatten(1, {call.kv_heads(), call.group()}).sum(2);
}

void seed_masks(const AttentionCall& call, at::Device device) {
  const DropoutRule& rule = call.options.dropout;
  if (!rule.active() || device.is_meta()) return;
  if (call.queries->shape_only)
    throw NeedsSamples(
        "libtorch's attention seeds its dropout on the host, by the samples of each batch. deterministic: true draws "
        "masks that need no seed");
  uint64_t seed = mixed(uint64_t{rule.key.high} << 32 | rule.key.low, static_cast<uint64_t>(rule.first));
  for (int64_t s = 0; s < call.queries->samples(); ++s)
    seed = mixed(mixed(seed, static_cast<uint64_t>(call.queries->sample_index[s])),
                 static_cast<uint64_t>(call.queries->start(s)));
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard lock(generator.mutex());
  generator.set_current_seed(seed);
}

}  // namespace trainer::nn::device
