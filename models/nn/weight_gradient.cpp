#include "models/nn/weight_gradient.h"

#include <cstdlib>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sparse_coo_tensor.h>

#include "models/nn/reference/reference.h"

namespace trainer::nn {
namespace {

/// Values. Adding to smaller gradients takes less time than a gradient without rows. TRAINER_LEAST_WRITTEN: another
/// number, for tests with small models.
int64_t least_written() {
  static const char* const asked = std::getenv("TRAINER_LEAST_WRITTEN");
  return asked != nullptr ? std::atoll(asked) : int64_t{1} << 15;
}

}  // namespace

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

bool writes_gradient(const at::Tensor& weight) {
  return weight.dim() == 2 && weight.numel() >= least_written() && !on_device(weight);
}

void allow_stale_gradient(const ParameterPtr& p) {
  p->value.register_hook([weak = std::weak_ptr(p)](const at::Tensor&) {
    if (const ParameterPtr here = weak.lock()) refresh_gradient(*here);
  });
}

void refresh_gradient(Parameter& p) {
  if (std::exchange(p.stale_grad, false)) p.value.mutable_grad().zero_();
}

void add_to_gradient(Parameter& p, const at::Tensor& gradient) {
  at::Tensor& sum = p.value.mutable_grad();
  if (std::exchange(p.stale_grad, false))
    sum.copy_(gradient);
  else
    sum.add_(gradient);
}

void add_to_gradient(Parameter& p, const at::Tensor& a, const at::Tensor& b) {
  at::Tensor& sum = p.value.mutable_grad();
  if (a.scalar_type() != sum.scalar_type() || !p.stale_grad) return add_to_gradient(p, at::mm(a, b));
  p.stale_grad = false;
  at::mm_out(sum, a, b);
}

}  // namespace trainer::nn
