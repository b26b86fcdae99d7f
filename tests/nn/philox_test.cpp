#include "models/nn/philox.h"

#include <vector>

#include <gtest/gtest.h>

namespace trainer::nn {
namespace {

TEST(Philox, WordsMatchTheKnownAnswers) {
  struct Known {
    uint32_t counter[4];
    PhiloxKey key;
    uint32_t words[4];
  };
  constexpr uint32_t kOnes = 0xFFFFFFFF;
  const Known table[] = {
      // philox4x32 with 10 rounds in Random123's kat_vectors
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}};
  for (const Known& known : table) {
    uint32_t words[4];
    philox_words(known.key, known.counter, words);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(words[i], known.words[i]) << "word " << i;
  }
}

TEST(Philox, VectorDrawsMatchTheWords) {
  const PhiloxKey key = philox_key(17, "some layer");
  const uint64_t position = 0x123456789ABCDEF0;
  const uint32_t row = 0xFEDCBA98, first = 5U << 20;
  constexpr int64_t kChunks = 3;
  std::vector<uint16_t> draws(kChunks * kPhiloxChunk);
  philox_u16(key, position, row, first, kChunks, draws.data());
  for (uint32_t chunk = 0; chunk < kChunks; ++chunk)
    for (uint32_t lane = 0; lane < 16; ++lane) {
      const uint32_t counter[4] = {0x9ABCDEF0, 0x12345678, row, first + 16 * chunk + lane};
      uint32_t words[4];
      philox_words(key, counter, words);
      for (uint32_t w = 0; w < 4; ++w) {
        const uint16_t* const pair = &draws[chunk * kPhiloxChunk + w * 32 + 2 * lane];
        EXPECT_EQ(pair[0] | static_cast<uint32_t>(pair[1]) << 16, words[w])
            << "chunk " << chunk << ", lane " << lane << ", word " << w;
      }
    }
}

TEST(Philox, KeysDifferBySeedAndName) {
  const PhiloxKey key = philox_key(1, "a");
  for (const PhiloxKey& other :
       {philox_key(2, "a"), philox_key(1, "b"), philox_key(1, ""), philox_key(uint64_t{1} << 32, "a")}) {
    EXPECT_NE(other.low, key.low);
    EXPECT_NE(other.high, key.high);
  }
}

}  // namespace
}  // namespace trainer::nn
