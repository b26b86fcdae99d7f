#include "models/nn/mask.h"

#include <algorithm>

#include <ATen/ops/empty.h>

#include "models/nn/kernel.h"
#include "models/nn/mask_kernels.h"
#include "models/nn/parallel.h"

namespace trainer::nn {

void draw_mask_row(PhiloxKey key, uint32_t threshold, int64_t position, int64_t token, int64_t head, int64_t first,
                   int64_t width, uint8_t* bits) {
  constexpr int64_t kDraws = 8 * kPhiloxChunk;
  uint16_t drawn[kDraws + kPhiloxChunk];
  const int64_t skipped = first % kPhiloxChunk;  // draws of the first chunk
  const uint16_t* const draws = drawn + skipped;
  for (int64_t begin = 0; begin < width; begin += kDraws) {
    const int64_t n = std::min(kDraws, mask_bytes(width - begin) * 8);
    const auto counter =
        (static_cast<uint32_t>(head) << 20) + static_cast<uint32_t>((first + begin) / kPhiloxChunk) * 16;
    philox_u16(key, static_cast<uint64_t>(position), static_cast<uint32_t>(token), counter,
               n / kPhiloxChunk + (skipped > 0 ? 1 : 0), drawn);
    mask_kernels().pack(draws, threshold, n, bits + begin / 8);
  }
}

at::Tensor draw_mask(PhiloxKey key, uint32_t threshold, const Layout& layout, int64_t first_element, int64_t width,
                     at::Device device) {
  const int64_t bytes = mask_bytes(width);
  at::Tensor mask = at::empty({layout.tokens(), bytes}, at::TensorOptions(at::kByte).device(device));
  auto* const bits = mask.data_ptr<uint8_t>();
  parallel_for(0, rows_to_compute(mask, layout.samples()), 1, [&](int64_t first, int64_t last) {
    for (int64_t s = first; s < last; ++s)
      for (int64_t token = 0; token < layout.spans[s].length; ++token)
        draw_mask_row(key, threshold, layout.sample_index[s], layout.start(s) + token, 0, first_element, width,
                      bits + (layout.spans[s].begin + token) * bytes);
  });
  return mask;
}

void expand_mask_row(const uint8_t* bits, float kept, int64_t n, float* out) {
  const int64_t whole = n / mask_kernels().lanes * mask_kernels().lanes;
  mask_kernels().expand(bits, kept, whole, out);
  plain_mask_kernels().expand(bits + whole / 8, kept, n - whole, out + whole);
}

void positive_mask_row(const float* x, int64_t n, uint8_t* bits) {
  const int64_t whole = n / mask_kernels().lanes * mask_kernels().lanes;
  mask_kernels().positive(x, whole, bits);
  plain_mask_kernels().positive(x + whole, n - whole, bits + whole / 8);
}

}  // namespace trainer::nn
