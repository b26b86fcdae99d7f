// Visits the elements of rows with their dropout draws: those of models/nn/philox.h and mask.h, bit for bit.
#pragma once

#include "models/nn/cuda/elements.h"

namespace trainer::nn::cuda {

struct PhiloxWords {
  uint32_t word[4];
};

/// nn::philox_words.
__device__ inline PhiloxWords philox(PhiloxKey key, PhiloxWords c) {
  for (uint32_t round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c.word[0], p1 = uint64_t{0xCD9E8D57} * c.word[2];
    const uint32_t k0 = key.low + round * 0x9E3779B9, k1 = key.high + round * 0xBB67AE85;
    c = {{static_cast<uint32_t>(p1 >> 32) ^ c.word[1] ^ k0, static_cast<uint32_t>(p1),
          static_cast<uint32_t>(p0 >> 32) ^ c.word[3] ^ k1, static_cast<uint32_t>(p0)}};
  }
  return c;
}

constexpr int kCounters = 16;  // of a chunk of draws

/// The number of counters, one per thread, that hold the draws of a row.
inline int64_t counters_of(const RowDraws& draws, int64_t width) {
  const int64_t skipped = draws.first % kPhiloxChunk;
  return (skipped + width + kPhiloxChunk - 1) / kPhiloxChunk * kCounters;
}

/// The draws of a counter of a row; its first one is that of element draws.first, rounded down to a chunk.
__device__ inline PhiloxWords words_of(const RowDraws& draws, int64_t row, int64_t counter) {
  const auto sample = static_cast<uint64_t>(draws.sample_index[row]);
  const int64_t first_counter = draws.first / kPhiloxChunk * kCounters;
  return philox(draws.key, {{static_cast<uint32_t>(sample), static_cast<uint32_t>(sample >> 32),
                             static_cast<uint32_t>(draws.token[row]), static_cast<uint32_t>(first_counter + counter)}});
}

/// Calls body.visit<N>(index of N elements, their factors) for all elements of the rows. A thread has the 8 draws of
/// one counter, which are four pairs of neighbors, 32 elements apart: neighboring threads access neighboring pairs. N
/// is 2 if no pair crosses the end of a row, else 1.
template <int N, class Body>
__global__ void __launch_bounds__(kThreads) visit_rows(Body body, RowDraws draws, int64_t width) {
  const int64_t row = blockIdx.x, counter = item_index(), lane = counter % kCounters;
  const int64_t chunk = counter / kCounters * kPhiloxChunk - draws.first % kPhiloxChunk;
  if (chunk >= width) return;
  PhiloxWords words{};
  if (draws.threshold > 0) words = words_of(draws, row, counter);
  for (int w = 0; w < 4; ++w) {
    const int64_t element = chunk + w * 32 + 2 * lane;
    const float low = (words.word[w] & 0xFFFF) >= draws.threshold ? draws.scale : 0.0F;
    const float high = (words.word[w] >> 16) >= draws.threshold ? draws.scale : 0.0F;
    if constexpr (N == 2) {
      if (element >= 0 && element < width) body.visit(row * width + element, Floats<2>{{low, high}});
    } else {
      if (element >= 0 && element < width) body.visit(row * width + element, Floats<1>{{low}});
      if (element + 1 >= 0 && element + 1 < width) body.visit(row * width + element + 1, Floats<1>{{high}});
    }
  }
}

/// The same where nothing is dropped: a thread has N neighboring elements.
template <int N, class Body>
__global__ void __launch_bounds__(kThreads) visit_all(Body body, int64_t elements) {
  const int64_t first = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * N;
  if (first + N <= elements) {
    Floats<N> ones;
    for (int i = 0; i < N; ++i) ones.x[i] = 1.0F;
    body.visit(first, ones);
  } else {
    for (int64_t at = first; at < elements; ++at) body.visit(at, Floats<1>{{1.0F}});
  }
}

/// `run`: the least run_at() of the addresses that the body uses.
template <class Body>
void visit(const Body& body, const RowDraws& draws, int64_t rows, int64_t width, int run, void* stream) {
  if (rows == 0 || width == 0) return;
  if (draws.threshold == 0) {
    const int64_t n = run == kSeveral ? kSeveral : 1, threads = (rows * width + n - 1) / n;
    const auto blocks = static_cast<unsigned>((threads + kThreads - 1) / kThreads);
    launch(run == kSeveral ? &visit_all<kSeveral, Body> : &visit_all<1, Body>, blocks, kThreads, stream, body,
           rows * width);
    return;
  }
  const dim3 grid = grid_of(rows, counters_of(draws, width));
  if (run >= 2 && width % 2 == 0 && draws.first % 2 == 0)
    launch(&visit_rows<2, Body>, grid, kThreads, stream, body, draws, width);
  else
    launch(&visit_rows<1, Body>, grid, kThreads, stream, body, draws, width);
}

}  // namespace trainer::nn::cuda
