#include "engine/adapters/dora_linear.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <torch/csrc/autograd/grad_mode.h>

namespace trainer::adapters {

at::Tensor row_lengths(const at::Tensor& w, const at::Tensor& a, const at::Tensor& b, double scale) {
  const at::Tensor v = at::addmm(w.to(at::kFloat), b.to(at::kFloat), a.to(at::kFloat), 1, scale);
  return at::linalg_vector_norm(v, 2, at::IntArrayRef{1});
}

DoraLinear::DoraLinear(const nn::Linear& base, const LoraShape& shape) : LoraLinear(base, shape) {
  magnitude_ = add_parameter("lora_magnitude_vector", {out()}, {}, {.out = 0});
}

at::Tensor DoraLinear::row_lengths(const nn::Pass& pass) const {
  const at::NoGradGuard no_grad;
  const auto seen = [&](const nn::ParameterPtr& p) { return p->value.to(pass.compute).to(at::kFloat); };
  at::Tensor w = matrix(at::kFloat);
  if (start_a()) w = at::addmm(w, seen(start_b()), seen(start_a()), 1, -shape().scale);
  return adapters::row_lengths(w, seen(a()), seen(b()), shape().scale);
}

at::Tensor DoraLinear::project(const nn::Rows& x_in, const nn::Pass& pass) const {
  const nn::Rows x = x_in.to(pass.compute);
  const nn::DropoutRule rule = dropout(pass);
  const nn::ParameterPtr bias = this->bias();
  const auto without_bias = [&](const at::Tensor& y) { return bias ? y - bias->value.to(pass.compute) : y; };
  const at::Tensor kept = base(x, pass);
  const nn::Rows seen = rule.active() ? x.with(nn::dropout(x.x, rule, x.layout)) : x;
  const at::Tensor turned = without_bias(rule.active() ? base(seen, pass) : kept);
  const at::Tensor longer = add_branch(turned, seen, {}, pass) * (magnitude_->value / row_lengths(pass));
  return (kept + (longer - turned)).to(pass.compute);
}

}  // namespace trainer::adapters
