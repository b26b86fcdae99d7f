#include "models/nn/philox.h"

#include "models/nn/kernel.h"

namespace trainer::nn {
namespace {

constexpr uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
constexpr int kRounds = 10, kLanes = 16;

uint64_t splitmix(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

}  // namespace

PhiloxKey philox_key(uint64_t seed, std::string_view what) {
  uint64_t hash = 0xCBF29CE484222325;  // FNV-1a
  for (const char c : what) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3;
  const uint64_t key = splitmix(splitmix(seed) ^ hash);
  return {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)};
}

void philox_words(PhiloxKey key, const uint32_t counter[4], uint32_t out[4]) {
  uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t p0 = uint64_t{kMultiplier0} * c0, p1 = uint64_t{kMultiplier1} * c2;
    const uint32_t k0 = key.low + round * kWeyl0, k1 = key.high + round * kWeyl1;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(p1);
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(p0);
  }
  out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

// The lanes of a chunk side by side, so that each line of a round is one vector instruction.
TRAINER_KERNEL void philox_u16(PhiloxKey key, uint64_t position, uint32_t row, uint32_t first, int64_t chunks,
                               uint16_t* out) {
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    uint32_t c0[kLanes], c1[kLanes], c2[kLanes], c3[kLanes];
    for (int l = 0; l < kLanes; ++l) {
      c0[l] = static_cast<uint32_t>(position);
      c1[l] = static_cast<uint32_t>(position >> 32);
      c2[l] = row;
      c3[l] = first + static_cast<uint32_t>(chunk) * kLanes + l;
    }
    for (int round = 0; round < kRounds; ++round) {
      const uint32_t k0 = key.low + round * kWeyl0, k1 = key.high + round * kWeyl1;
#pragma omp simd
      for (int l = 0; l < kLanes; ++l) {
        const uint64_t p0 = uint64_t{kMultiplier0} * c0[l], p1 = uint64_t{kMultiplier1} * c2[l];
        c0[l] = static_cast<uint32_t>(p1 >> 32) ^ c1[l] ^ k0;
        c1[l] = static_cast<uint32_t>(p1);
        c2[l] = static_cast<uint32_t>(p0 >> 32) ^ c3[l] ^ k1;
        c3[l] = static_cast<uint32_t>(p0);
      }
    }
    uint16_t* const to = out + chunk * kPhiloxChunk;
    const uint32_t* const words[4] = {c0, c1, c2, c3};
    for (int w = 0; w < 4; ++w)
      for (int l = 0; l < kLanes; ++l) {
        to[w * 32 + 2 * l] = static_cast<uint16_t>(words[w][l]);
        to[w * 32 + 2 * l + 1] = static_cast<uint16_t>(words[w][l] >> 16);
      }
  }
}

}  // namespace trainer::nn
