// Counter-based random numbers: every draw is a pure function of its key and counter, without generator state.
#pragma once

#include <cstdint>
#include <string_view>

namespace trainer::nn {

/// Selects a stream of numbers: from the run's seed and a name for the draws ("encoder.block.0.layer.1.dropout").
struct PhiloxKey {
  uint32_t low, high;
};
PhiloxKey philox_key(uint64_t seed, std::string_view what);

/// Numbers per chunk: 16 counters of four 32-bit words each, read as 16-bit numbers.
inline constexpr int64_t kPhiloxChunk = 128;

/// Fills `out` [chunks * 128] with 16-bit random numbers. The counter of chunk j, lane l is
/// (position low, position high, row, first + 16 j + l). Philox4x32-10: Salmon et al., SC 2011.
void philox_u16(PhiloxKey key, uint64_t position, uint32_t row, uint32_t first, int64_t chunks, uint16_t* out);

/// The four words of one counter: the reference implementation, also used for draws that are not hot.
void philox_words(PhiloxKey key, const uint32_t counter[4], uint32_t out[4]);

}  // namespace trainer::nn
