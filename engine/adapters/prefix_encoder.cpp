#include "engine/adapters/prefix_encoder.h"

#include <cmath>

#include <ATen/ops/linear.h>
#include <ATen/ops/tanh.h>

namespace trainer::adapters {

at::Tensor encode_prefix(const PrefixShape& shape, const std::map<std::string, at::Tensor>& weights) {
  const auto linear = [&](const at::Tensor& x, const std::string& name) {
    return at::linear(x, weights.at(name + ".weight"), weights.at(name + ".bias"));
  };
  const at::Tensor& embedding = weights.at("embedding.weight");
  return shape.projected ? linear(at::tanh(linear(embedding, "transform.0")), "transform.2") : embedding;
}

PrefixEncoder::PrefixEncoder(const PrefixShape& shape) : Module("PrefixEncoder"), shape_(shape) {
  const nn::Init normal{nn::Init::kNormal, 1};
  add_parameter("embedding.weight", {shape.tokens, shape.projected ? shape.width : shape.numbers()}, normal);
  if (!shape.projected) return;
  const auto add_linear = [&](const std::string& name, int64_t in, int64_t out) {
    const nn::Init uniform{nn::Init::kUniform, 1 / std::sqrt(static_cast<double>(in))};
    add_parameter(name + ".weight", {out, in}, uniform);
    add_parameter(name + ".bias", {out}, uniform);
  };
  add_linear("transform.0", shape.width, shape.hidden);
  add_linear("transform.2", shape.hidden, shape.numbers());
}

nn::RowsList PrefixEncoder::forward(const nn::RowsList&, const nn::Pass&) {
  std::map<std::string, at::Tensor> weights;
  for (const auto& [name, parameter] : parameters()) weights[name] = parameter->value;
  return {{encode_prefix(shape_, weights)}};
}

}  // namespace trainer::adapters
