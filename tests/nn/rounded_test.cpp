#include "models/nn/rounded.h"

#include <bit>

#include <gtest/gtest.h>

namespace trainer::nn {
namespace {

TEST(Rounded, Bf16IsAsC10Rounds) {
  for (uint32_t high = 0; high < 1U << 16; ++high)  // every sign, exponent and kept bit, infinities and NaN
    for (const uint32_t low : {0x0000U, 0x0001U, 0x7FFFU, 0x8000U, 0x8001U, 0xFFFFU}) {
      const auto x = std::bit_cast<float>(high << 16 | low);
      ASSERT_EQ(rounded<c10::BFloat16>(x).x, c10::BFloat16(x).x) << std::hex << (high << 16 | low);
    }
}

}  // namespace
}  // namespace trainer::nn
