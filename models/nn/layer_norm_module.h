#pragma once

#include "models/nn/module.h"

namespace trainer::nn {

/// layer_norm() with a learned weight and bias [D], as torch.nn.LayerNorm. x [T, D] → [T, D], both fp32.
class LayerNorm : public Module {
 public:
  LayerNorm(int64_t width, double eps);
  at::Tensor operator()(const at::Tensor& x, const Pass& pass);

 protected:
  Tensors forward(const Tensors& inputs, const Pass& pass) override;

 private:
  double eps_;
};

}  // namespace trainer::nn
