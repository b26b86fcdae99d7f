#include "models/nn/cuda/draws.h"
#include "models/nn/cuda/kernels.h"

namespace trainer::nn::cuda {
namespace {

/// A thread has the 8 draws of one counter, as visit_rows().
__global__ void __launch_bounds__(kThreads)
    add_noise_to_rows(const float* x, const float* magnitudes, RowDraws draws, int64_t width, float* out) {
  const int64_t row = blockIdx.x, counter = item_index(), lane = counter % kCounters;
  const int64_t chunk = counter / kCounters * kPhiloxChunk;
  if (chunk >= width) return;
  const PhiloxWords words = words_of(draws, row, counter);
  const float magnitude = magnitudes[row];
  for (int w = 0; w < 4; ++w)
    for (int half = 0; half < 2; ++half) {
      const int64_t element = chunk + w * 32 + 2 * lane + half;
      if (element >= width) continue;
      const auto draw = static_cast<float>(words.word[w] >> (16 * half) & 0xFFFF);
      out[row * width + element] = x[row * width + element] + magnitude * ((draw + 0.5F) / 32768.0F - 1.0F);
    }
}

}  // namespace

void add_noise(const float* x, const float* magnitudes, const RowDraws& draws, int64_t rows, int64_t width, float* out,
               void* stream) {
  if (rows == 0 || width == 0) return;
  launch(&add_noise_to_rows, grid_of(rows, counters_of(draws, width)), kThreads, stream, x, magnitudes, draws, width,
         out);
}

}  // namespace trainer::nn::cuda
