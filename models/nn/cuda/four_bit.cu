#include <stdexcept>

#include "models/nn/cuda/elements.h"
#include "models/nn/cuda/kernels.h"

namespace trainer::nn::cuda {
namespace {

struct Blocks {
  const uint8_t* codes;
  const float* scales;
  int64_t stride, size;  // bytes from block to block; values of a block
};

/// A thread decodes kBytes bytes of one block. Threads look up different codes at the same time, which shared memory
/// answers at once, so the table is copied there first.
template <class T, int kBytes>
__global__ void __launch_bounds__(kThreads)
    decode(Blocks blocks, const __grid_constant__ FourBitTable table, int64_t values, T* out) {
  TRAINER_SHARED(float, value_of, 16);
  if (threadIdx.x < 16) value_of[threadIdx.x] = table.values[threadIdx.x];
  __syncthreads();
  const int64_t first = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * 2 * kBytes;
  if (first >= values) return;
  const int64_t block = first / blocks.size, byte = first % blocks.size / 2;
  const float scale = blocks.scales[block];
  const auto codes = *reinterpret_cast<const Pack<uint8_t, kBytes>*>(blocks.codes + block * blocks.stride + byte);
  Floats<2 * kBytes> decoded;
  for (int i = 0; i < kBytes; ++i) {
    decoded.x[2 * i] = value_of[codes.elements[i] >> 4] * scale;
    decoded.x[2 * i + 1] = value_of[codes.elements[i] & 15] * scale;
  }
  if (first + 1 < values)
    store<2 * kBytes>(out + first, decoded);
  else
    store<1>(out + first, Floats<1>{{decoded.x[0]}});  // an odd number of values, which a thread per byte decodes
}

template <class T, int kBytes>
void decode_by(const Blocks& blocks, const FourBitTable& table, int64_t values, void* out, void* stream) {
  constexpr int64_t kValues = int64_t{kThreads} * 2 * kBytes;  // of a block of threads
  launch(&decode<T, kBytes>, static_cast<unsigned>((values + kValues - 1) / kValues), kThreads, stream, blocks, table,
         values, static_cast<T*>(out));
}

}  // namespace

void decode_four_bits(const uint8_t* codes, int64_t stride, const float* scales, const FourBitTable& table,
                      int64_t block, int64_t values, ElementType type, void* out, void* stream) {
  if (block <= 0 || block % 2 != 0) throw std::runtime_error("4-bit values: a block has an odd number of values");
  if (values == 0) return;
  const Blocks blocks{codes, scales, stride, block};
  with_type(type, [&](auto of) {
    using T = typename decltype(of)::type;
    constexpr int kBytes = 8 / sizeof(T);  // 16 bytes of values
    const bool several = is_aligned(codes, kBytes) && stride % kBytes == 0 && is_aligned(out, 2 * kBytes * sizeof(T)) &&
                         block % (2 * kBytes) == 0 && values % (2 * kBytes) == 0;
    if (several)
      decode_by<T, kBytes>(blocks, table, values, out, stream);
    else if (is_aligned(out, 2 * sizeof(T)))
      decode_by<T, 1>(blocks, table, values, out, stream);
    else
      throw std::runtime_error("4-bit values are decoded to pairs, and the address of the first is not that of a pair");
  });
}

}  // namespace trainer::nn::cuda
