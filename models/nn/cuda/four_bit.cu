#include <stdexcept>

#include "models/nn/cuda/elements.h"
#include "models/nn/cuda/kernels.h"

namespace trainer::nn::cuda {
namespace {

/// A block's scale, in front of its codes.
template <bool kDoubled>
constexpr int64_t kScaleBytes = kDoubled ? 1 : 4;

template <bool kDoubled>
__device__ float scale_of(const uint8_t* block, int64_t index, const FourBitScales& scales) {
  if constexpr (kDoubled)
    // Rounded twice, as on the CPU: no fused multiply-add.
    return __fadd_rn(__fmul_rn(scales.map[block[0]], scales.shared[2 * index]), scales.shared[2 * index + 1]);
  else
    return *reinterpret_cast<const float*>(block);
}

/// A thread decodes 16 bytes of values of one block. Threads look up different codes at the same time, which shared
/// memory answers at once, so the table is copied there first. (The threads of a warp have few blocks, and so few
/// scales.)
template <class T, bool kDoubled>
__global__ void __launch_bounds__(kThreads)
    decode(const uint8_t* blocks, const __grid_constant__ FourBitCode code,
           const __grid_constant__ FourBitScales scales, int64_t values, T* out) {
  constexpr int kBytes = 8 / sizeof(T);
  TRAINER_SHARED(float, value_of, 16);
  if (threadIdx.x < 16) value_of[threadIdx.x] = code.values[threadIdx.x];
  __syncthreads();
  const int64_t first = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * 2 * kBytes;
  if (first >= values) return;
  const int64_t index = first / kFourBitBlock;
  const uint8_t* const block = blocks + index * (kScaleBytes<kDoubled> + kFourBitBytes);
  const float scale = scale_of<kDoubled>(block, index, scales);
  const uint8_t* const from = block + kScaleBytes<kDoubled> + first % kFourBitBlock / 2;
  Pack<uint8_t, kBytes> codes;
  if constexpr (kDoubled)  // codes at odd addresses
    for (int i = 0; i < kBytes; ++i) codes.elements[i] = from[i];
  else
    codes = *reinterpret_cast<const Pack<uint8_t, kBytes>*>(from);
  Floats<2 * kBytes> decoded;
  for (int i = 0; i < kBytes; ++i) {
    decoded.x[2 * i] = value_of[codes.elements[i] >> 4] * scale;
    decoded.x[2 * i + 1] = value_of[codes.elements[i] & 15] * scale;
  }
  store<2 * kBytes>(out + first, decoded);
}

template <class T, bool kDoubled>
void decode_as(const uint8_t* blocks, int64_t count, const FourBitCode& code, const FourBitScales& scales, void* out,
               void* stream) {
  constexpr int64_t kValues = int64_t{kThreads} * 16 / sizeof(T);  // of a block of threads
  const int64_t values = count * kFourBitBlock;
  launch(&decode<T, kDoubled>, static_cast<unsigned>((values + kValues - 1) / kValues), kThreads, stream, blocks, code,
         scales, values, static_cast<T*>(out));
}

}  // namespace

void decode_four_bits(const uint8_t* blocks, int64_t count, const FourBitCode& code, const FourBitScales& scales,
                      ElementType type, void* out, void* stream) {
  if (count == 0) return;
  const bool doubled = scales.shared != nullptr;
  if (!is_aligned(out, 16) || !is_aligned(blocks, doubled ? 1 : 4))
    throw std::runtime_error("4-bit blocks begin at multiples of 4 bytes, and are decoded to multiples of 16");
  with_type(type, [&](auto of) {
    using T = typename decltype(of)::type;
    if (doubled)
      decode_as<T, true>(blocks, count, code, scales, out, stream);
    else
      decode_as<T, false>(blocks, count, code, scales, out, stream);
  });
}

}  // namespace trainer::nn::cuda
