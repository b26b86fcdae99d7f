#pragma once

#include "engine/adapters/lora_linear.h"

namespace trainer::adapters {

/// An embedding plus a low-rank table: row i is W[i] + scale * A[:, i] B^T, times the scale of the embedding. A [r,
/// count] starts at zero, B [width, r] from a normal distribution; there is no dropout.
class LoraEmbedding : public nn::Embedding {
 public:
  LoraEmbedding(const nn::Embedding& base, const LoraShape& shape);

  const nn::ParameterPtr& a() const { return a_; }
  const nn::ParameterPtr& b() const { return b_; }
  /// Of A^T B^T in the table, before the embedding's own scale.
  double change_scale() const { return change_scale_; }

 protected:
  nn::RowsList forward(const nn::RowsList& inputs, const nn::Pass& pass) override;

 private:
  double change_scale_;
  nn::ParameterPtr a_, b_;
};

}  // namespace trainer::adapters
