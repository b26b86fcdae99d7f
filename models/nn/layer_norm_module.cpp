#include "models/nn/layer_norm_module.h"

#include "models/nn/layer_norm.h"

namespace trainer::nn {

LayerNorm::LayerNorm(int64_t width, double eps) : Module("LayerNorm"), eps_(eps) {
  add_parameter("weight", {width}, {Init::kConstant, 1});
  add_parameter("bias", {width}, {Init::kConstant, 0});
}

Rows LayerNorm::operator()(const Rows& x, const Pass& pass) {
  return wrapped() ? Module::operator()({x}, pass)[0] : forward({x}, pass)[0];
}

RowsList LayerNorm::forward(const RowsList& in, const Pass&) {
  const at::Tensor &weight = parameters()[0].second->value, &bias = parameters()[1].second->value;
  return {in[0].with(layer_norm(in[0].x, weight, bias, eps_, at::kFloat))};
}

}  // namespace trainer::nn
