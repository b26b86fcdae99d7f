#pragma once

#include "engine/adapters/lora_linear.h"

namespace trainer::adapters {

/// LoRA whose rows have a length of their own: y = b + m / |V| * x V^T with V = W + scale * B A, where |V| holds the
/// lengths of V's rows, taken as constants by the backward, and m [out] is learnt. While dropout is drawn the input is
/// dropped for all but the x W^T that stays as it is, as PEFT does. Source: Liu et al. 2024.
class DoraLinear : public LoraLinear {
 public:
  DoraLinear(const nn::Linear& base, const LoraShape& shape);

  const nn::ParameterPtr& magnitude() const { return magnitude_; }

 protected:
  at::Tensor project(const at::Tensor& x, const nn::LayoutPtr& rows, const nn::Pass& pass) const override;

 private:
  at::Tensor row_lengths(const nn::Pass& pass) const;

  nn::ParameterPtr magnitude_;
};

/// The lengths [out] of the rows of w [out, in] + scale * b a, in fp32.
at::Tensor row_lengths(const at::Tensor& w, const at::Tensor& a, const at::Tensor& b, double scale);

}  // namespace trainer::adapters
