#include <stdexcept>

#include "models/nn/cuda/elements.h"
#include "models/nn/cuda/kernels.h"

namespace trainer::nn::cuda {
namespace {

/// The values of the 16 codes: quantiles of the normal distribution, scaled to [-1, 1]. Source: Dettmers et al., QLoRA,
/// 2023, appendix E.
__constant__ const float kNf4[16] = {-1.0F,
                                     -0.6961928009986877F,
                                     -0.5250730514526367F,
                                     -0.39491748809814453F,
                                     -0.28444138169288635F,
                                     -0.18477343022823334F,
                                     -0.09105003625154495F,
                                     0.0F,
                                     0.07958029955625534F,
                                     0.16093020141124725F,
                                     0.24611230194568634F,
                                     0.33791524171829224F,
                                     0.44070982933044434F,
                                     0.5626170039176941F,
                                     0.7229568362236023F,
                                     1.0F};

/// A thread decodes kBytes bytes, or what is left of the values. Threads read different codes at a time, which
/// serializes constant memory but not shared memory, so the table is copied there first.
template <class T, int kBytes>
__global__ void __launch_bounds__(kThreads)
    decode(const uint8_t* codes, const float* absmax, int64_t block, int64_t values, T* out) {
  TRAINER_SHARED(float, table, 16);
  if (threadIdx.x < 16) table[threadIdx.x] = kNf4[threadIdx.x];
  __syncthreads();
  const int64_t first = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * 2 * kBytes;
  if (first >= values) return;
  const float largest = absmax[first / block];
  const auto bytes = *reinterpret_cast<const Pack<uint8_t, kBytes>*>(codes + first / 2);
  Floats<2 * kBytes> decoded;
#pragma unroll
  for (int i = 0; i < kBytes; ++i) {
    decoded.x[2 * i] = table[bytes.elements[i] >> 4] * largest;
    decoded.x[2 * i + 1] = table[bytes.elements[i] & 15] * largest;
  }
  if (first + 1 < values)
    store<2 * kBytes>(out + first, decoded);
  else
    store<1>(out + first, Floats<1>{{decoded.x[0]}});
}

template <class T, int kBytes>
void decode_by(const uint8_t* codes, const float* absmax, int64_t block, int64_t values, void* out, void* stream) {
  constexpr int64_t kValues = int64_t{kThreads} * 2 * kBytes;  // of a block of threads
  launch(&decode<T, kBytes>, static_cast<unsigned>((values + kValues - 1) / kValues), kThreads, stream, codes, absmax,
         block, values, static_cast<T*>(out));
}

}  // namespace

void decode_nf4(const uint8_t* codes, const float* absmax, int64_t block, int64_t values, ElementType type, void* out,
                void* stream) {
  if (block <= 0 || block % 2 != 0) throw std::runtime_error("NF4: the values of a block are not an even number");
  if (values == 0) return;
  with_type(type, [&](auto of) {
    using T = typename decltype(of)::type;
    constexpr int kBytes = 4;
    const bool aligned = is_aligned(codes, kBytes) && is_aligned(out, 2 * kBytes * sizeof(T));
    if (aligned && block % (2 * kBytes) == 0 && values % (2 * kBytes) == 0)
      decode_by<T, kBytes>(codes, absmax, block, values, out, stream);
    else
      decode_by<T, 1>(codes, absmax, block, values, out, stream);
  });
}

}  // namespace trainer::nn::cuda
