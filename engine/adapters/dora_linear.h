#pragma once

#include "engine/adapters/lora_linear.h"

namespace trainer::adapters {

/// LoRA with a learned norm per row: y = b + m / |V| * x V^T with V = W + scale * B A, where |V| is the norm of each
/// row of V, a constant in backward, and m [out] is learned. Dropout applies to every use of the input except one
/// unchanged x W^T, as in PEFT. Source: Liu et al. 2024.
class DoraLinear : public LoraLinear {
 public:
  DoraLinear(const nn::Linear& base, const LoraShape& shape);

  const nn::ParameterPtr& magnitude() const { return magnitude_; }

 protected:
  at::Tensor project(const nn::Rows& x, const nn::Pass& pass) const override;

 private:
  at::Tensor row_lengths(const nn::Pass& pass) const;

  nn::ParameterPtr magnitude_;
};

/// The norms [out] of the rows of w [out, in] + scale * b a, in fp32.
at::Tensor row_lengths(const at::Tensor& w, const at::Tensor& a, const at::Tensor& b, double scale);

}  // namespace trainer::adapters
