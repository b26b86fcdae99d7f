#include "models/nn/linear.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>

namespace trainer::nn {
namespace {

/// x W^T for a frozen W whose storage dtype differs from x's. The cast of W exists only briefly in forward and again in
/// backward; autograd would hold it in between, and with it a cast copy of the whole model.
struct LinearOfKept : torch::autograd::Function<LinearOfKept> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight) {
    ctx->save_for_backward({weight});
    return at::mm(x, weight.to(x.scalar_type()).t());
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    return {at::mm(grads[0], ctx->get_saved_variables()[0].to(grads[0].scalar_type())), at::Tensor()};
  }
};

}  // namespace

Linear::Linear(int64_t in, int64_t out, bool bias, Init init, Stored stored)
    : Module(stored == Stored::kOutIn ? "Linear" : "Conv1D"), stored_(stored) {
  add_parameter("weight", stored == Stored::kOutIn ? std::vector{out, in} : std::vector{in, out}, init)->linear = true;
  if (bias) add_parameter("bias", {out}, {Init::kConstant, 0})->linear = true;
}

Linear::Linear(const ParameterPtr& tied) : Module("Linear") {
  share_parameter("weight", tied);
}

Linear::Linear(const Linear& base) : Module(base.class_name()), stored_(base.stored_) {
  for (const auto& [name, parameter] : base.parameters()) share_parameter(name, parameter);
}

Rows Linear::operator()(const Rows& x, const Pass& given) {
  const at::ScalarType compute = weight()->computed_in(given.compute);
  if (!wrapped() && compute == given.compute) return x.with(project(x, given));
  Pass pass = given;
  pass.compute = compute;
  return wrapped() ? Module::operator()({x}, pass)[0] : x.with(project(x, pass));
}

at::Tensor Linear::project(const Rows& x, const Pass& pass) const {
  const at::Tensor in = x.x.to(pass.compute), w = matrix();
  const ParameterPtr b = adds_bias_ ? bias() : nullptr;
  const auto added = b ? std::optional<at::Tensor>(b->value.to(pass.compute)) : std::nullopt;
  if (w.scalar_type() == pass.compute || w.requires_grad()) return at::linear(in, w.to(pass.compute), added);
  const at::Tensor out = LinearOfKept::apply(in, w);
  return added ? out + *added : out;
}

at::Tensor Linear::matrix() const {
  const at::Tensor& value = weight()->value;
  return stored_ == Stored::kOutIn ? value : value.t();
}

int64_t Linear::first_of(int64_t dim) const {
  const ParameterPtr w = weight();
  return w->part.whole() || w->part.dim != dim ? 0 : w->part.ranges.front().begin;
}

ParameterPtr Linear::find(const char* name) const {
  for (const auto& [known, parameter] : parameters())
    if (known == name) return parameter;
  return nullptr;
}

Embedding::Embedding(int64_t count, int64_t width, Init init, double scale) : Module("Embedding"), scale_(scale) {
  add_parameter("weight", {count, width}, init);
}

Embedding::Embedding(const ParameterPtr& tied) : Module("Embedding") {
  share_parameter("weight", tied);
}

Embedding::Embedding(const Embedding& base) : Embedding(base.weight()) {
  scale_ = base.scale_;
}

Rows Embedding::operator()(const Rows& ids, const Pass& pass) {
  return wrapped() ? Module::operator()({ids}, pass)[0] : forward({ids}, pass)[0];
}

RowsList Embedding::forward(const RowsList& inputs, const Pass&) {
  const at::Tensor& table = weight()->value;
  const at::Tensor rows = at::embedding(table, inputs[0].x.to(table.device())).to(at::kFloat);
  return {inputs[0].with(scale_ == 1 ? rows : rows * scale_)};
}

}  // namespace trainer::nn
