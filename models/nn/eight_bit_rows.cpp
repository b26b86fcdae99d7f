#include "models/nn/eight_bit_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include <ATen/Dispatch.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/maximum.h>

#include "models/nn/kernel.h"
#include "models/nn/parallel.h"
#include "models/nn/reference/reference.h"
#include "models/nn/rounded.h"

namespace trainer::nn {
namespace {

constexpr int64_t kBlock = 128;
constexpr float kMost = 127;
constexpr float kLeast = 1e-30F;     // what is smaller becomes 0: 127 / it would overflow
constexpr int64_t kGrain = 1 << 14;  // elements of a thread, at least

int64_t block_of(const at::Tensor& x) {
  return x.size(-1) % kBlock == 0 ? kBlock : x.size(-1);
}

/// The kernels of a block, compiled for each instruction set.
template <class T>
struct Block {
  TRAINER_KERNEL static void pack(const T* x, int64_t n, int8_t* codes, float* scale) {
    float most = 0, none = 0;  // `none` is NaN if a value isn't finite
#pragma omp simd reduction(max : most) reduction(+ : none)
    for (int64_t i = 0; i < n; ++i) {
      const auto value = static_cast<float>(x[i]);
      most = std::max(most, std::fabs(value));
      none += value * 0;
    }
    const float inverse = most > kLeast ? kMost / most : 0;
    // Adding 1.5 * 2^23 leaves no bits for a fraction, so that it rounds, and the integer is in the lowest bits.
    constexpr float kRounds = 12582912;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i)
      codes[i] = static_cast<int8_t>(std::bit_cast<int32_t>(static_cast<float>(x[i]) * inverse + kRounds));
    *scale = most / kMost + none;
  }
  TRAINER_KERNEL static void unpack(const int8_t* codes, int64_t n, float scale, T* x) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) x[i] = rounded<T>(static_cast<float>(codes[i]) * scale);
  }
};

template <class F>
void for_each_block(const at::Tensor& x, int64_t block, const F& f) {
  const int64_t blocks = rows_to_compute(x, x.numel() / block);
  parallel_for(0, blocks, std::max<int64_t>(1, kGrain / block), [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) f(i);
  });
}

}  // namespace

EightBitRows to_eight_bits(const at::Tensor& given) {
  const at::Tensor x = given.contiguous();
  const int64_t block = block_of(x);
  if (runs_reference(x)) {
    const at::Tensor blocks = x.view({-1, block});
    const at::Tensor most = at::maximum(blocks.amax({1}, true), blocks.amin({1}, true).neg());
    const at::Tensor scales = most.to(at::kFloat).div(kMost);
    return {blocks.div(scales.clamp_min(kLeast / kMost)).round_().to(at::kChar).view(x.sizes()), scales};
  }
  EightBitRows rows{at::empty(x.sizes(), x.options().dtype(at::kChar)),
                    at::empty({x.numel() / block, 1}, x.options().dtype(at::kFloat))};
  auto* const codes = rows.codes.data_ptr<int8_t>();
  auto* const scales = rows.scales.data_ptr<float>();
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "to_eight_bits", [&] {
    const auto* const from = x.const_data_ptr<scalar_t>();
    for_each_block(x, block,
                   [&](int64_t i) { Block<scalar_t>::pack(from + i * block, block, codes + i * block, scales + i); });
  });
  return rows;
}

at::Tensor from_eight_bits(const EightBitRows& rows, at::ScalarType dtype) {
  const int64_t block = rows.codes.numel() / rows.scales.numel();
  if (runs_reference(rows.codes))
    return rows.codes.view({-1, block}).to(at::kFloat).mul_(rows.scales).to(dtype).view(rows.codes.sizes());
  const at::Tensor x = at::empty(rows.codes.sizes(), rows.codes.options().dtype(dtype));
  const auto* const codes = rows.codes.const_data_ptr<int8_t>();
  const auto* const scales = rows.scales.const_data_ptr<float>();
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, dtype, "from_eight_bits", [&] {
    auto* const to = x.data_ptr<scalar_t>();
    for_each_block(x, block,
                   [&](int64_t i) { Block<scalar_t>::unpack(codes + i * block, block, scales[i], to + i * block); });
  });
  return x;
}

}  // namespace trainer::nn
