// Which attention a call runs on a device: libtorch's fused operators where they apply, else the reference layer.
#pragma once

#include <map>
#include <string>

#include "models/nn/attention.h"

namespace trainer::nn {

/// libtorch's fused attention that a device has.
struct FusedAttention {
  bool flash = false;      // aten::_flash_attention_*
  bool efficient = false;  // aten::_efficient_attention_*
  bool cudnn = false;      // aten::_cudnn_attention_*, where it is faster than flash attention: Hopper and later
};
/// That of devices of this type, from now on. Not for use while layers run.
void use_fused_attention(c10::DeviceType type, FusedAttention has);

/// During its lifetime, attention's dropout draws the masks that every device and every number of ranks draws
/// (models/nn/dropout.h), which the fused operators can't. Also in effect while libtorch uses deterministic algorithms.
class OwnAttentionMasks {
 public:
  OwnAttentionMasks();
  ~OwnAttentionMasks();
  OwnAttentionMasks(const OwnAttentionMasks&) = delete;
  OwnAttentionMasks& operator=(const OwnAttentionMasks&) = delete;
};

// Note [Attention on devices]
// Four ways that hold no [S, H, Q, K] scores, in this order; what none of them can do runs as the reference layer.
//   - cuDNN: as flash, but only samples of one length, a multiple of 128, that attend to themselves. No windows and no
//     dropout, heads up to 128 elements. It makes a plan for each new shape, which takes it some 30 ms: other lengths
//     would each be a new shape. Not while libtorch uses deterministic algorithms: its backward isn't one.
//   - Flash: half precision, heads of a multiple of 8 elements up to 256, grouped heads, causal or not, windows.
//     Samples are packed.
//   - Efficient: also fp32 and any multiple of 16 bytes. Packed samples; heads of keys are repeated first. No dropout:
//     where forward numbers the draws it takes the number of keys to be 0, and backward that of the longest sample.
//   - Padded: efficient attention with a mask and a bias as one additive tensor, which forbids packed samples. The call
//     is split into blocks of samples and heads, so that this tensor has at most kMostBias elements, or those of one
//     head of one sample.
// Only the reference layer has a soft cap, and draws our own dropout masks. The fused operators draw from libtorch's
// generator, which is seeded before each call from the dropout's key and the samples' indices: recomputed layers and
// resumed runs draw the same again. Masks do depend on how samples are batched and on the tensor-parallel degree.
enum class AttentionKind { kReference, kCudnn, kFlash, kEfficient, kPadded };
const char* name_of(AttentionKind kind);

struct AttentionChoice {
  AttentionKind kind = AttentionKind::kReference;
  std::string why;  // what keeps it from flash attention; "" if nothing does
};

/// For a call of packed_attention with these arguments, on a device where layers run as reference layers.
AttentionChoice choose_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& bias,
                                 const Layout& queries, const Layout& keys, const AttentionOptions& options);

/// During its lifetime, counts the choices of this thread.
class AttentionCount {
 public:
  struct Found {
    int64_t calls = 0, drawing = 0;  // of these, with masks of the operator's own
  };

  AttentionCount();
  ~AttentionCount();
  AttentionCount(const AttentionCount&) = delete;
  AttentionCount& operator=(const AttentionCount&) = delete;

  /// "flash attention", or "memory-efficient attention (activations in fp32) in 12 of 24 calls, ..."; what draws masks.
  std::string text() const;
  void add(const AttentionChoice& choice, bool draws);

 private:
  AttentionCount* outer_;
  std::map<std::pair<AttentionKind, std::string>, Found> found_;
};

}  // namespace trainer::nn
