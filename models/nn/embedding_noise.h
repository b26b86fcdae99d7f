// NEFTune: noise on the embeddings of tokens while a model is fine-tuned. Source: Jain et al., "NEFTune: Noisy
// Embeddings Improve Instruction Finetuning", 2023.
#pragma once

#include <string_view>

#include "models/nn/pass.h"
#include "models/nn/rows.h"

namespace trainer::nn {

/// x [T, D] fp32, the embeddings of tokens, plus alpha / sqrt(L D) u: u is uniform in (-1, 1), and L counts the tokens
/// of the row's sample. (transformers counts those of the longest sample of a micro-batch.) u is drawn as dropout is:
/// it doesn't depend on ranks, micro-batches or resuming.
at::Tensor add_noise(const at::Tensor& x, PhiloxKey key, double alpha, const LayoutPtr& layout);

/// The embeddings `x` of the module at `place`, with the noise that the pass asks for.
Rows with_noise(const Rows& x, const Pass& pass, std::string_view place);

}  // namespace trainer::nn
