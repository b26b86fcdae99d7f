#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "engine/config/sections/training.h"

namespace trainer::optim {

/// One update of torch.optim.AdamW, by the options' betas and epsilon.
class AdamWStep {
 public:
  /// `step`: counts from 1.
  AdamWStep(const config::TrainingConfig& options, int64_t step);

  /// Averages the gradient `g` into the moments `m` and `v`, in place.
  void average(const at::Tensor& m, const at::Tensor& v, const at::Tensor& g) const;
  /// Updates `x` from the averaged moments.
  void move(const at::Tensor& x, const at::Tensor& m, const at::Tensor& v, double learning_rate,
            double weight_decay) const;

 private:
  double beta1_, beta2_, epsilon_, correction1_, correction2_;
};

}  // namespace trainer::optim
