// Adapters initialized from a decomposition of the base weight.
#pragma once

#include <string>

#include <ATen/core/Tensor.h>

namespace trainer::adapters {

// Note [Decomposed start]
// PiSSA and OLoRA initialize A and B to the dominant part of W, A0 and B0, and replace the frozen weight by the
// residual W - scale * B0 A0. This implementation leaves W unchanged, under every strategy and in every dtype, and
// computes the equivalent x W^T + scale * (x A^T B^T - x A0^T B0^T). So tied and sharded weights need no special case,
// no precision is lost by rounding the residual, a resumed run finds the same W, and the saved adapter is what is
// computed: an adapter of twice the rank, [A; A0] and [B, -B0], for the original weights.

struct LowRank {
  at::Tensor a, b;  // [r, in], [out, r]
};

/// Whether `init` (lora.init_lora_weights) decomposes the weight.
bool is_decomposed(const std::string& init);

/// PiSSA: "pissa" by the singular value decomposition of w [out, in] fp32, "pissa_niter_N" by a randomized one with N
/// power iterations, whose draws are keyed by `place`: b a = the best rank-r approximation of w, divided by `scale`.
/// OLoRA ("olora"): by the QR decomposition, b a not divided. Sources: Meng et al. 2024; Büyükakyüz 2024; Halko et al.
/// 2009.
LowRank decompose(const at::Tensor& w, const std::string& init, int64_t r, double scale, const std::string& place);

}  // namespace trainer::adapters
