// Rotary position embeddings: each pair of a query's or key's elements rotates by an angle proportional to the
// position.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "models/nn/layout.h"
#include "models/nn/pass.h"
#include "models/nn/rope_options.h"

namespace trainer::nn {

/// Angle per position of each pair of a head [head_dim / 2], and the factor of cosine and sine.
struct RopeFrequencies {
  std::vector<float> inverse;
  float scale = 1;
};
/// For a sample of `length` tokens, in fp32 as transformers computes them.
RopeFrequencies rope_frequencies(const RopeOptions& options, int64_t head_dim, int64_t length);

/// Cosines, then sines, of every row: [T, head_dim] fp32. Positions start at 0 in every sample, after the pass's prefix
/// and the cached tokens of the sample. One table serves all layers of a pass.
at::Tensor rope_table(const RopeOptions& options, int64_t head_dim, const Layout& rows, const Pass& pass,
                      at::Device device);

/// x [T, heads * head_dim] rotated by table [T, head_dim]: element j of a head's first half is paired with element j of
/// its second half (Hugging Face's layout, not the interleaved one).
at::Tensor rotate(const at::Tensor& x, const at::Tensor& table);

}  // namespace trainer::nn
