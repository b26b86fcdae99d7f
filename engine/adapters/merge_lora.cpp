#include "engine/adapters/merge_lora.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/linalg_vector_norm.h>

#include "engine/adapters/dora_linear.h"
#include "engine/adapters/lora_embedding.h"
#include "engine/adapters/merge.h"

namespace trainer::adapters {
namespace {

/// `matrix` + scale * B A; a decomposed start is subtracted (see Note [Decomposed start]).
at::Tensor with_branch(const LoraLinear& layer, const at::Tensor& matrix, const ReadWeight& read) {
  const double scale = layer.shape().scale;
  const at::Tensor merged = at::addmm(matrix, read(*layer.b()), read(*layer.a()), 1, scale);
  if (layer.start_a() == nullptr) return merged;
  return at::addmm(merged, read(*layer.start_b()), read(*layer.start_a()), 1, -scale);
}

DerivedWeights merge_linear(const LoraLinear& layer) {
  return merged_matrix(layer, [&layer](const at::Tensor& matrix, const ReadWeight& read) {
    const at::Tensor merged = with_branch(layer, matrix, read);
    const auto* dora = dynamic_cast<const DoraLinear*>(&layer);
    if (dora == nullptr) return merged;
    const at::Tensor lengths = at::linalg_vector_norm(merged, 2, at::IntArrayRef{1});
    return merged * (read(*dora->magnitude()) / lengths).unsqueeze(1);
  });
}

DerivedWeights merge_embedding(const LoraEmbedding& layer) {
  return {{name_in(layer, "weight"), [&layer](const ReadWeight& read) {
             return at::addmm(read(*layer.weight()), read(*layer.a()).t(), read(*layer.b()).t(), 1,
                              layer.change_scale());
           }}};
}

}  // namespace

DerivedWeights merge_lora(const nn::Module& module) {
  if (const auto* linear = dynamic_cast<const LoraLinear*>(&module)) return merge_linear(*linear);
  if (const auto* embedding = dynamic_cast<const LoraEmbedding*>(&module)) return merge_embedding(*embedding);
  return {};
}

}  // namespace trainer::adapters
