// Rotary positions: each pair of numbers of a query or key turns by an angle that grows with the token's position.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "models/nn/layout.h"
#include "models/nn/pass.h"
#include "models/nn/rope_options.h"

namespace trainer::nn {

/// Angles per position of the pairs of a head [head_dim / 2], and what cosine and sine are multiplied by.
struct RopeFrequencies {
  std::vector<float> inverse;
  float scale = 1;
};
/// For a sample of `length` tokens, in fp32 as transformers computes them.
RopeFrequencies rope_frequencies(const RopeOptions& options, int64_t head_dim, int64_t length);

/// Cosines and, behind them, sines of every row: [T, head_dim] fp32. Positions begin anew with every sample, after the
/// pass's prefix and what its cache holds of the sample. One table serves all layers of a pass.
at::Tensor rope_table(const RopeOptions& options, int64_t head_dim, const Layout& rows, const Pass& pass,
                      at::Device device);

/// x [T, heads * head_dim] turned by table [T, head_dim]: element j of a head's first half is paired with element j of
/// its second half (Hugging Face's layout, not the interleaved one).
at::Tensor rotate(const at::Tensor& x, const at::Tensor& table);

}  // namespace trainer::nn
