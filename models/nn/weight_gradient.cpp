#include "models/nn/weight_gradient.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/sparse_coo_tensor.h>

#include "models/nn/reference/reference.h"

namespace trainer::nn {

bool takes_gradient_in_place(const at::Tensor& weight) {
  if (on_device(weight) || !weight.is_leaf()) return false;
  const at::Tensor& gradient = weight.grad();
  return gradient.defined() && gradient.layout() == at::kStrided && gradient.scalar_type() == weight.scalar_type();
}

at::Tensor no_rows(const at::Tensor& weight) {
  const at::Tensor places = at::empty({1, 0}, weight.options().dtype(at::kLong)),
                   rows = at::empty({0, weight.size(1)}, weight.options());
  return at::sparse_coo_tensor(places, rows, weight.sizes(), weight.options().layout(at::kSparse), true);
}

}  // namespace trainer::nn
