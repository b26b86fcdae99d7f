// The loops of masks in each set of instructions against the plain ones.
#include "models/nn/mask.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "models/nn/mask_kernels.h"

namespace trainer::nn {
namespace {

std::vector<const MaskKernels*> of_this_cpu() {
  std::vector<const MaskKernels*> all;
  for (const MaskKernels* const kernels : {avx512_mask_kernels(), avx2_mask_kernels()})
    if (kernels != nullptr) all.push_back(kernels);
  return all;
}

constexpr int64_t kMost = 160;
constexpr uint8_t kUntouched = 0xA5;

TEST(Mask, DrawsArePackedAsByThePlainLoop) {
  std::mt19937 random(1);
  std::vector<uint16_t> draws(kMost);
  for (uint16_t& draw : draws) draw = static_cast<uint16_t>(random());
  draws[0] = 0, draws[1] = 1, draws[2] = 0x7FFF, draws[3] = 0x8000, draws[40] = 0xFFFF;
  for (const MaskKernels* const kernels : of_this_cpu())
    for (const uint32_t threshold : {0U, 1U, 0x1999U, 0x7FFFU, 0x8000U, 0x8001U, 0xFFFFU})
      for (int64_t n = 0; n <= kMost; n += 32) {
        std::vector<uint8_t> found(kMost / 8, kUntouched), expected = found;
        kernels->pack(draws.data(), threshold, n, found.data());
        plain_mask_kernels().pack(draws.data(), threshold, n, expected.data());
        EXPECT_EQ(found, expected) << threshold << ", " << n << " draws, lanes " << kernels->lanes;
      }
}

TEST(Mask, BitsAreExpandedAsByThePlainLoop) {
  std::mt19937 random(1);
  std::vector<uint8_t> bits(kMost / 8);
  for (uint8_t& byte : bits) byte = static_cast<uint8_t>(random());
  for (const MaskKernels* const kernels : of_this_cpu())
    for (int64_t n = 0; n <= kMost; n += kernels->lanes) {
      std::vector<float> found(kMost + 1, 5), expected = found;
      kernels->expand(bits.data(), 1.25F, n, found.data());
      plain_mask_kernels().expand(bits.data(), 1.25F, n, expected.data());
      EXPECT_EQ(found, expected) << n << " elements, lanes " << kernels->lanes;
    }
}

TEST(Mask, PositiveNumbersAreFoundAsByThePlainLoop) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> x(kMost);
  for (float& value : x) value = normal(random);
  x[0] = 0, x[1] = -0.0F, x[2] = NAN, x[3] = INFINITY, x[4] = -INFINITY, x[5] = std::numeric_limits<float>::denorm_min();
  for (const MaskKernels* const kernels : of_this_cpu())
    for (int64_t n = 0; n <= kMost; n += kernels->lanes) {
      std::vector<uint8_t> found(kMost / 8, kUntouched), expected = found;
      kernels->positive(x.data(), n, found.data());
      plain_mask_kernels().positive(x.data(), n, expected.data());
      EXPECT_EQ(found, expected) << n << " elements, lanes " << kernels->lanes;
    }
}

TEST(Mask, RowsOfAnyWidthAreWhole) {
  std::vector<uint8_t> bits(kMost / 8, 0b01011001);
  for (int64_t n = 0; n <= kMost; ++n) {
    std::vector<float> out(kMost + 1, 5), back(kMost + 1, -1);
    expand_mask_row(bits.data(), 2, n, out.data());
    for (int64_t i = 0; i <= kMost; ++i)
      ASSERT_EQ(out[i], i >= n ? 5.0F : (bits[i / 8] >> (i % 8) & 1) != 0 ? 2.0F : 0.0F) << i << " of " << n;
    std::vector<uint8_t> again(kMost / 8 + 1, kUntouched);
    positive_mask_row(out.data(), n, again.data());
    expand_mask_row(again.data(), 2, n, back.data());
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(back[i], out[i]) << i << " of " << n;
    for (int64_t byte = (n + 7) / 8; byte < static_cast<int64_t>(again.size()); ++byte)
      ASSERT_EQ(again[byte], kUntouched) << "beyond " << n;
  }
}

}  // namespace
}  // namespace trainer::nn
