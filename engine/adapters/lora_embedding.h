#pragma once

#include "engine/adapters/lora_linear.h"

namespace trainer::adapters {

/// An embedding plus a low-rank table: row i is W[i] + scale * A[:, i] B^T, times the scale of the embedding. A [r,
/// count] starts at zero, B [width, r] from a normal distribution; there is no dropout.
class LoraEmbedding : public nn::Embedding {
 public:
  LoraEmbedding(const nn::Embedding& base, const LoraShape& shape);

 protected:
  nn::RowsList forward(const nn::RowsList& inputs, const nn::Pass& pass) override;

 private:
  double scale_;
  nn::ParameterPtr a_, b_;
};

}  // namespace trainer::adapters
