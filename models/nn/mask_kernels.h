// The loops of masks, for one set of instructions each.
#pragma once

#include <cstdint>

namespace trainer::nn {

/// For n that are multiples of `lanes`, of draws multiples of 32; the plain ones for any.
struct MaskKernels {
  int64_t lanes;
  /// Sets bit i where draws[i] is at least `threshold`, below 2^16.
  void (*pack)(const uint16_t* draws, uint32_t threshold, int64_t n, uint8_t* bits);
  /// out[i] = bit i ? kept : 0.
  void (*expand)(const uint8_t* bits, float kept, int64_t n, float* out);
  /// Sets bit i where x[i] > 0.
  void (*positive)(const float* x, int64_t n, uint8_t* bits);
};

/// The fastest of this CPU.
const MaskKernels& mask_kernels();

/// Null if this CPU lacks the instructions.
const MaskKernels* avx512_mask_kernels();
const MaskKernels* avx2_mask_kernels();
const MaskKernels& plain_mask_kernels();

}  // namespace trainer::nn
