#pragma once

#include "models/nn/module.h"

namespace trainer::nn {

/// layer_norm() with a learned weight and bias [D], as torch.nn.LayerNorm. x [T, D] → [T, D], both fp32.
class LayerNorm : public Module {
 public:
  LayerNorm(int64_t width, double eps);
  Rows operator()(const Rows& x, const Pass& pass);

 protected:
  RowsList forward(const RowsList& inputs, const Pass& pass) override;

 private:
  double eps_;
};

}  // namespace trainer::nn
