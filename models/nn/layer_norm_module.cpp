#include "models/nn/layer_norm_module.h"

#include "models/nn/layer_norm.h"

namespace trainer::nn {

LayerNorm::LayerNorm(int64_t width, double eps) : Module("LayerNorm"), eps_(eps) {
  add_parameter("weight", {width}, {Init::kConstant, 1});
  add_parameter("bias", {width}, {Init::kConstant, 0});
}

at::Tensor LayerNorm::operator()(const at::Tensor& x, const Pass& pass) {
  return wrapped() ? Module::operator()({x}, pass)[0] : forward({x}, pass)[0];
}

Tensors LayerNorm::forward(const Tensors& in, const Pass&) {
  return {layer_norm(in[0], parameters()[0].second->value, parameters()[1].second->value, eps_, at::kFloat)};
}

}  // namespace trainer::nn
