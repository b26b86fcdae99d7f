#pragma once

#include "models/nn/linear.h"

namespace trainer::adapters {

struct LoraShape {
  int64_t r = 8;
  double scale = 1;    // lora_alpha / r, or lora_alpha / sqrt(r)
  double dropout = 0;  // on the adapter's input
  nn::Init a, b;
};

/// A linear layer with a low-rank branch beside it: y = x W^T + scale * dropout(x) A^T B^T.
/// A [r, in] and B [out, r] are trained in fp32, W is shared with the layer it takes the place of. Source: Hu et al.
/// 2021.
class LoraLinear : public nn::Linear {
 public:
  LoraLinear(const nn::Linear& base, const LoraShape& shape);

 protected:
  at::Tensor project(const at::Tensor& x, const nn::LayoutPtr& rows, const nn::Pass& pass) const override;

 private:
  LoraShape shape_;
  nn::ParameterPtr a_, b_;
};

/// scale * dropout(x) A^T B^T added to `base` [T, out]; x [T, in]. Keeps x, the [T, r] product and the mask's bits.
at::Tensor add_low_rank(const at::Tensor& base, const at::Tensor& x, const at::Tensor& a, const at::Tensor& b,
                        double scale, const nn::DropoutRule& rule, const nn::LayoutPtr& rows);

}  // namespace trainer::adapters
