#include "models/nn/reference/rotation.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/stack.h>

namespace trainer::nn::reference {

at::Tensor rotate(const at::Tensor& x, const at::Tensor& table) {
  const int64_t pairs = table.size(1) / 2;
  const at::Tensor halves = x.to(at::kFloat).reshape({x.size(0), x.size(1) / table.size(1), 2, pairs});
  const at::Tensor first = halves.select(2, 0), second = halves.select(2, 1);  // [T, heads, pairs]
  const at::Tensor cosine = table.narrow(1, 0, pairs).unsqueeze(1), sine = table.narrow(1, pairs, pairs).unsqueeze(1);
  return at::stack({first * cosine - second * sine, second * cosine + first * sine}, 2).view_as(x).to(x.scalar_type());
}

}  // namespace trainer::nn::reference
