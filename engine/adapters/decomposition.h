// Adapters that start as a part of the weight they stand beside.
#pragma once

#include <string>

#include <ATen/core/Tensor.h>

namespace trainer::adapters {

// Note [Decomposed start]
// PiSSA and OLoRA start A and B as the parts of W that matter most, A0 and B0, and let the frozen weight be what is
// left: W - scale * B0 A0. Here W stays as it is in its file, under every strategy and in every dtype, and the layer
// computes x W^T + scale * (x A^T B^T - x A0^T B0^T), which is the same. So a tied or sharded weight needs no care,
// nothing is lost by rounding what is left, a resumed run finds the same W, and what is saved is what is computed: an
// adapter of twice the rank, [A; A0] and [B, -B0], that fits the weights as they were.

struct LowRank {
  at::Tensor a, b;  // [r, in], [out, r]
};

/// Whether `init` (lora.init_lora_weights) decomposes the weight.
bool is_decomposed(const std::string& init);

/// PiSSA: "pissa" by the singular value decomposition of w [out, in] fp32, "pissa_niter_N" by a randomised one with N
/// power iterations whose draws are keyed by `place`: b a = the best approximation of w of rank r, divided by `scale`.
/// OLoRA ("olora"): by the QR decomposition, b a not divided. Sources: Meng et al. 2024; Büyükakyüz 2024; Halko et al.
/// 2009.
LowRank decompose(const at::Tensor& w, const std::string& init, int64_t r, double scale, const std::string& place);

}  // namespace trainer::adapters
