#include "models/nn/four_bit_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include "models/nn/kernel.h"
#include "models/nn/rounded.h"

namespace trainer::nn {
namespace {

constexpr int kLanes = 8;
using Lanes = uint32_t __attribute__((vector_size(4 * kLanes)));
using Halves = uint16_t __attribute__((vector_size(2 * kLanes)));

TRAINER_KERNEL void largest_rows(const float* values, int64_t blocks, float* largest) {
  for (int64_t b = 0; b < blocks; ++b) {
    float most = 0;
#pragma omp simd reduction(max : most)
    for (int64_t i = 0; i < kFourBitBlock; ++i) most = std::max(most, std::fabs(values[b * kFourBitBlock + i]));
    largest[b] = most;
  }
}

/// bounds: the 15 means of neighboring values. A value on a bound takes the code below, as in bitsandbytes.
TRAINER_KERNEL void encode_rows(const float* values, const float* largest, const float* bounds, const uint8_t* order,
                                int64_t blocks, int64_t stride, uint8_t* out) {
  for (int64_t b = 0; b < blocks; ++b) {
    const float inverse = 1.0F / std::max(largest[b], 1e-38F);
    int32_t above[kFourBitBlock];
#pragma omp simd
    for (int64_t i = 0; i < kFourBitBlock; ++i) {
      const float x = std::min(std::max(values[b * kFourBitBlock + i] * inverse, -1.0F), 1.0F);
      int32_t count = 0;
      for (int k = 0; k < 15; ++k) count += x > bounds[k] ? 1 : 0;
      above[i] = count;
    }
    for (int64_t i = 0; i < kFourBitBytes; ++i)
      out[b * stride + i] = static_cast<uint8_t>(order[above[2 * i]] << 4 | order[above[2 * i + 1]]);
  }
}

/// table[index] for eight indices below 16.
inline __attribute__((always_inline)) void look_up(const uint32_t* table, const Lanes& index, Lanes& found) {
#ifdef __clang__
  for (int i = 0; i < kLanes; ++i) found[i] = table[index[i]];
#else
  Lanes low, high;
  std::memcpy(&low, table, sizeof low);
  std::memcpy(&high, table + kLanes, sizeof high);
  found = index > 7 ? __builtin_shuffle(high, index) : __builtin_shuffle(low, index);
#endif
}

template <class T>
struct Decoder {
  /// The 16 products are rounded once for the block; each of its values is one of them.
  TRAINER_KERNEL static void rows(const uint8_t* codes, int64_t stride, const float* scales, const float* values,
                                  int64_t blocks, T* out) {
    constexpr Lanes kShifts{4, 0, 12, 8, 20, 16, 28, 24};
    for (int64_t b = 0; b < blocks; ++b) {
      alignas(32) uint32_t table[16];
      for (int k = 0; k < 16; ++k) {
        const T product = rounded<T>(values[k] * scales[b]);
        table[k] = 0;
        std::memcpy(&table[k], &product, sizeof product);
      }
      for (int64_t at = 0; at < kFourBitBlock; at += kLanes) {
        uint32_t word = 0;
        std::memcpy(&word, codes + b * stride + at / 2, sizeof word);
        Lanes found;
        look_up(table, ((Lanes{} + word) >> kShifts) & 15U, found);
        if constexpr (sizeof(T) == 4) {
          std::memcpy(out + b * kFourBitBlock + at, &found, sizeof found);
        } else {
          const Halves halves = __builtin_convertvector(found, Halves);
          std::memcpy(out + b * kFourBitBlock + at, &halves, sizeof halves);
        }
      }
    }
  }
};

}  // namespace

void largest_of_blocks(const float* values, int64_t blocks, float* largest) {
  largest_rows(values, blocks, largest);
}

void encode_four_bits(const float* values, const float* largest, const FourBitCode& code, int64_t blocks,
                      int64_t stride, uint8_t* out) {
  float bounds[15];
  for (int k = 0; k < 15; ++k) bounds[k] = (code.values[code.order[k]] + code.values[code.order[k + 1]]) / 2;
  encode_rows(values, largest, bounds, code.order, blocks, stride, out);
}

template <class T>
void decode_four_bits(const uint8_t* codes, int64_t stride, const float* scales, const FourBitCode& code,
                      int64_t blocks, T* out) {
  Decoder<T>::rows(codes, stride, scales, code.values, blocks, out);
}
template void decode_four_bits(const uint8_t*, int64_t, const float*, const FourBitCode&, int64_t, float*);
template void decode_four_bits(const uint8_t*, int64_t, const float*, const FourBitCode&, int64_t, c10::BFloat16*);
template void decode_four_bits(const uint8_t*, int64_t, const float*, const FourBitCode&, int64_t, c10::Half*);

}  // namespace trainer::nn
