// What the fused kinds of attention have in common.
#pragma once

#include <ATen/record_function.h>

#include "models/nn/attention.h"

namespace trainer::nn::device {

/// Elements of the additive mask and bias in padded attention: 64 MiB in half precision.
constexpr int64_t kMostBias = 1 << 25;

/// A call of packed_attention, for its forward and backward pass.
struct AttentionCall {
  LayoutPtr queries, keys;
  AttentionOptions options;
  int64_t width = 0;  // of a head
  int64_t most_bias = kMostBias;

  int64_t kv_heads() const { return options.kv_heads > 0 ? options.kv_heads : options.heads; }
  int64_t group() const { return options.heads / kv_heads(); }
  double dropout() const { return options.dropout.threshold / 65536.0; }
  /// Of both products of forward, masked or not; and of those that a mask hides.
  int64_t flops() const;
  int64_t hidden_flops() const;
};

/// A scope that profilers and dry runs see, with the call's FLOPs. Nothing happens without an observer.
class AttentionScope {
 public:
  explicit AttentionScope(const AttentionCall& call);

 private:
  at::RecordFunction scope_;
  c10::IValue flops_[2];
};

/// [rows, heads * width] as [rows, heads, width].
at::Tensor by_head(const at::Tensor& x, int64_t width);
/// Keys or values [rows, kv_heads, width], repeated for each query head: [rows, heads, width].
at::Tensor for_each_head(const at::Tensor& x, const AttentionCall& call);
/// The gradient of x from that of for_each_head(x).
at::Tensor summed_over_groups(const at::Tensor& grad, const AttentionCall& call);

/// Seeds libtorch's generator of the device for the call's dropout, if it has any (Note [Attention on devices]).
void seed_masks(const AttentionCall& call, at::Device device);

}  // namespace trainer::nn::device
