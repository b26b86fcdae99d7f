#include "models/nn/linear.h"

#include <ATen/ops/embedding.h>
#include <ATen/ops/linear.h>

namespace trainer::nn {

Linear::Linear(int64_t in, int64_t out, bool bias, Init init) : Module("Linear") {
  add_parameter("weight", {out, in}, init)->linear = true;
  if (bias) add_parameter("bias", {out}, {Init::kConstant, 0})->linear = true;
}

Linear::Linear(const ParameterPtr& tied) : Module("Linear") {
  share_parameter("weight", tied);
}

Linear::Linear(const Linear& base) : Module("Linear") {
  for (const auto& [name, parameter] : base.parameters()) share_parameter(name, parameter);
}

at::Tensor Linear::operator()(const at::Tensor& x, const LayoutPtr& rows, const Pass& pass) {
  if (!wrapped()) return project(x, rows, pass);
  Pass with_rows = pass;
  with_rows.rows = rows;
  return Module::operator()({x}, with_rows)[0];
}

at::Tensor Linear::project(const at::Tensor& x, const LayoutPtr&, const Pass& pass) const {
  const ParameterPtr b = bias();
  return at::linear(x.to(pass.compute), weight()->value.to(pass.compute),
                    b ? std::optional<at::Tensor>(b->value.to(pass.compute)) : std::nullopt);
}

ParameterPtr Linear::find(const char* name) const {
  for (const auto& [known, parameter] : parameters())
    if (known == name) return parameter;
  return nullptr;
}

Embedding::Embedding(int64_t count, int64_t width, Init init) : Module("Embedding") {
  add_parameter("weight", {count, width}, init);
}

Embedding::Embedding(const ParameterPtr& tied) : Module("Embedding") {
  share_parameter("weight", tied);
}

at::Tensor Embedding::operator()(const at::Tensor& ids, const Pass& pass) {
  return wrapped() ? Module::operator()({ids}, pass)[0] : forward({ids}, pass)[0];
}

Tensors Embedding::forward(const Tensors& inputs, const Pass&) {
  return {at::embedding(weight()->value, inputs[0]).to(at::kFloat)};
}

}  // namespace trainer::nn
