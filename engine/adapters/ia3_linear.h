#pragma once

#include "models/nn/linear.h"

namespace trainer::adapters {

/// Which side of a layer is scaled.
enum class Ia3Side { kOutput, kInput };

/// A linear layer whose output is multiplied by a learnt vector l [out, 1], or whose input is by l [1, in] (in the
/// feed-forward part of a block). Source: Liu et al. 2022, (IA)^3.
class Ia3Linear : public nn::Linear {
 public:
  Ia3Linear(const nn::Linear& base, Ia3Side side, nn::Init init);

 protected:
  at::Tensor project(const at::Tensor& x, const nn::LayoutPtr& rows, const nn::Pass& pass) const override;

 private:
  Ia3Side side_;
  nn::ParameterPtr scale_;
};

}  // namespace trainer::adapters
