#pragma once

#include "models/nn/linear.h"

namespace trainer::adapters {

/// Which side of a layer is scaled.
enum class Ia3Side { kOutput, kInput };

/// A linear layer with a learned vector that scales its output, l [out, 1], or its input, l [1, in] (in a block's
/// feed-forward). Source: Liu et al. 2022, (IA)^3.
class Ia3Linear : public nn::Linear {
 public:
  Ia3Linear(const nn::Linear& base, Ia3Side side, nn::Init init);

  Ia3Side side() const { return side_; }
  const nn::ParameterPtr& scale() const { return scale_; }

 protected:
  at::Tensor project(const nn::Rows& x, const nn::Pass& pass) const override;

 private:
  Ia3Side side_;
  nn::ParameterPtr scale_;
};

}  // namespace trainer::adapters
