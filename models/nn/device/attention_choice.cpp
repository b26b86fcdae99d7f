#include "models/nn/device/attention_choice.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "models/nn/reference/reference.h"

namespace trainer::nn {
namespace {

struct Known {
  std::atomic<bool> flash{false}, efficient{false}, cudnn{false};
};
std::array<Known, c10::COMPILE_TIME_MAX_DEVICE_TYPES> fused_of_type{};
std::atomic<int> own_masks{0};  // number of live OwnAttentionMasks
thread_local AttentionCount* t_count = nullptr;

FusedAttention fused_on(const at::Tensor& x) {
  if (forces_reference()) return {};
  if (x.is_meta()) {  // of a GPU: libtorch's operators for it come with every build
    return {.flash = true, .efficient = true, .cudnn = DryDevice::has_cudnn()};
  }
  const Known& known = fused_of_type.at(static_cast<size_t>(x.device().type()));
  return {known.flash, known.efficient, known.cudnn};
}

bool is_half(at::ScalarType dtype) {
  return dtype == at::kHalf || dtype == at::kBFloat16;
}

/// What keeps a call from any fused operator; "" if nothing does.
std::string why_not_fused(const at::Tensor& q, const at::Tensor& k, const Layout& queries, int64_t width,
                          const AttentionOptions& options) {
  if (options.soft_cap > 0) return "a soft cap of the scores";
  if (options.dropout.active() && (own_masks > 0 || at::globalContext().deterministicAlgorithms()))
    return "deterministic dropout masks";
  if (!is_half(q.scalar_type()) && q.scalar_type() != at::kFloat)
    return fmt::format("activations in {}", c10::toString(q.scalar_type()));
  if (width * static_cast<int64_t>(q.element_size()) % 16 != 0) return fmt::format("heads of {} elements", width);
  if (q.size(0) == 0 || k.size(0) == 0 || queries.has_gaps()) return "no rows";
  return "";
}

std::string why_not_flash(const at::Tensor& q, const at::Tensor& bias, const Layout& queries, int64_t width,
                          const FusedAttention& has) {
  if (!has.flash) return "a GPU without flash attention";
  if (!is_half(q.scalar_type())) return "activations in fp32";
  if (bias.defined()) return "a bias of the scores";
  if (width > 256) return fmt::format("heads of {} elements", width);
  // With one query per sample, the operator takes the number of queries to be that of the samples.
  if (queries.longest() == 1 && queries.tokens() != queries.samples()) return "samples without queries";
  return "";
}

/// Whether all samples have this many tokens, which are all rows of x.
bool has_samples_of(int64_t length, const Layout& layout, const at::Tensor& x) {
  return std::all_of(layout.spans.begin(), layout.spans.end(), [&](const Span& s) { return s.length == length; }) &&
         layout.tokens() == x.size(0) && !layout.has_gaps();
}

/// Whether cuDNN can run what flash attention can.
bool suits_cudnn(const at::Tensor& q, const at::Tensor& k, const Layout& queries, const Layout& keys, int64_t width,
                 const AttentionOptions& options) {
  constexpr int64_t kStep = 128, kWidest = 128;
  const int64_t length = queries.longest();
  return length % kStep == 0 && width <= kWidest && options.window == 0 && !options.dropout.active() &&
         has_samples_of(length, queries, q) && has_samples_of(length, keys, k) && k.scalar_type() == q.scalar_type() &&
         !at::globalContext().deterministicAlgorithms();
}

/// Whether variable lengths are not enough.
bool needs_padding(const at::Tensor& bias, const AttentionOptions& options) {
  return bias.defined() || options.dropout.active() || options.window > 0;
}

}  // namespace

void use_fused_attention(c10::DeviceType type, FusedAttention has) {
  Known& known = fused_of_type.at(static_cast<size_t>(type));
  known.flash = has.flash;
  known.efficient = has.efficient;
  known.cudnn = has.cudnn;
}

OwnAttentionMasks::OwnAttentionMasks() {
  ++own_masks;
}

OwnAttentionMasks::~OwnAttentionMasks() {
  --own_masks;
}

const char* name_of(AttentionKind kind) {
  constexpr const char* kNames[] = {"reference attention", "cuDNN attention", "flash attention",
                                    "memory-efficient attention", "memory-efficient attention with padding"};
  return kNames[static_cast<size_t>(kind)];
}

AttentionChoice choose_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& bias,
                                 const Layout& queries, const Layout& keys, const AttentionOptions& options) {
  using enum AttentionKind;
  const FusedAttention has = fused_on(q);
  const int64_t width = q.size(1) / options.heads;
  AttentionChoice choice{kReference, why_not_fused(q, k, queries, width, options)};
  if (choice.why.empty()) {
    choice = {kFlash, why_not_flash(q, bias, queries, width, has)};
    // GPUs without flash attention have no kernels for bf16 either.
    const bool efficient = has.efficient && (has.flash || q.scalar_type() != at::kBFloat16);
    if (!choice.why.empty())
      choice.kind = !efficient ? kReference : needs_padding(bias, options) ? kPadded : kEfficient;
    else if (has.cudnn && suits_cudnn(q, k, queries, keys, width, options))
      choice.kind = kCudnn;
  }
  if (t_count != nullptr) t_count->add(choice, choice.kind != kReference && options.dropout.active());
  return choice;
}

AttentionCount::AttentionCount() : outer_(std::exchange(t_count, this)) {}

AttentionCount::~AttentionCount() {
  t_count = outer_;
}

void AttentionCount::add(const AttentionChoice& choice, bool draws) {
  Found& of = found_[{choice.kind, choice.why}];
  ++of.calls;
  if (draws) ++of.drawing;
}

std::string AttentionCount::text() const {
  int64_t calls = 0, drawing = 0;
  for (const auto& [what, of] : found_) calls += of.calls, drawing += of.drawing;
  std::string text;
  for (const auto& [what, of] : found_) {
    const auto& [kind, why] = what;
    text += fmt::format("{}{}{}{}", text.empty() ? "" : ", ", name_of(kind), why.empty() ? "" : " (" + why + ")",
                        found_.size() > 1 ? fmt::format(" in {} of {} calls", of.calls, calls) : "");
  }
  return drawing > 0 ? text + "; its operators draw the masks of attention's dropout" : text;
}

}  // namespace trainer::nn
