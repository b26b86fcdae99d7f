#include "engine/adapters/ia3_linear.h"

#include <ATen/TensorOperators.h>

namespace trainer::adapters {

Ia3Linear::Ia3Linear(const nn::Linear& base, Ia3Side side, nn::Init init) : Linear(base), side_(side) {
  scale_ = side == Ia3Side::kInput ? add_parameter("ia3_l", {1, in()}, init, {.in = 1})
                                   : add_parameter("ia3_l", {out(), 1}, init, {.out = 0});
}

at::Tensor Ia3Linear::project(const nn::Rows& x, const nn::Pass& pass) const {
  const at::Tensor l = scale_->value.view({1, -1});
  if (side_ == Ia3Side::kInput) return Linear::project(x.with((x.x * l).to(pass.compute)), pass);
  return (Linear::project(x, pass) * l).to(pass.compute);
}

}  // namespace trainer::adapters
