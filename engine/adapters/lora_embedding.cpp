#include "engine/adapters/lora_embedding.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/mm.h>

namespace trainer::adapters {

LoraEmbedding::LoraEmbedding(const nn::Embedding& base, const LoraShape& shape)
    : Embedding(base), change_scale_(shape.scale) {
  const auto& size = base.weight()->shape;
  a_ = add_parameter("lora_embedding_A", {shape.r, size[0]}, shape.a, {.in = 1});
  b_ = add_parameter("lora_embedding_B", {size[1], shape.r}, shape.b, {.out = 0});
}

nn::RowsList LoraEmbedding::forward(const nn::RowsList& in, const nn::Pass& pass) {
  const at::Tensor row = at::embedding(a_->value.t(), in[0].x.to(a_->value.device()), frozen_row());  // [T, r]
  return {in[0].with(Embedding::forward(in, pass)[0].x + at::mm(row, b_->value.t()) * (change_scale_ * scale()))};
}

}  // namespace trainer::adapters
