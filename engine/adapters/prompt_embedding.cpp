#include "engine/adapters/prompt_embedding.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/lt.h>

namespace trainer::adapters {

PromptEmbedding::PromptEmbedding(const nn::Embedding& base, int64_t tokens) : Embedding(base) {
  prompt_ = add_parameter("prompt_embeddings", {tokens, base.weight()->shape[1]}, {nn::Init::kNormal, 1});
}

PromptEmbedding::PromptEmbedding(const nn::Embedding& base, const PromptEncoderShape& encoder) : Embedding(base) {
  encoder_.emplace(*this, "prompt_encoder", encoder);
}

nn::RowsList PromptEmbedding::forward(const nn::RowsList& in, const nn::Pass& pass) {
  const at::Tensor ids = in[0].x.to(weight()->value.device());
  const at::Tensor words = Embedding::forward({{at::clamp_min(ids, 0)}}, pass)[0].x;
  const at::Tensor prompt = prompt_ ? prompt_->value : (**encoder_)(pass);
  const at::Tensor virtual_rows = at::embedding(prompt, at::clamp_min(-ids - 1, 0));
  const at::Tensor is_virtual = at::lt(ids, 0).unsqueeze(1).to(at::kFloat);
  return {in[0].with(words * (1 - is_virtual) + virtual_rows * is_virtual)};
}

}  // namespace trainer::adapters
