#include "engine/adapters/prompt_encoder.h"

#include <cmath>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/lstm.h>
#include <ATen/ops/threshold.h>
#include <ATen/ops/zeros.h>

namespace trainer::adapters {
namespace {

using Weights = std::map<std::string, at::Tensor>;

at::Tensor rectified(const at::Tensor& x) {
  return at::threshold(x, 0, 0);  // unlike relu, it has a meta implementation for dry runs
}

at::Tensor linear(const at::Tensor& x, const Weights& weights, const std::string& name) {
  return at::linear(x, weights.at(name + ".weight"), weights.at(name + ".bias"));
}

/// torch.nn.LSTM's names of the weights, in the order that the operator takes them.
std::vector<std::string> lstm_names(int64_t layers) {
  std::vector<std::string> names;
  for (int64_t layer = 0; layer < layers; ++layer)
    for (const char* direction : {"", "_reverse"})
      for (const char* kind : {"weight_ih_l", "weight_hh_l", "bias_ih_l", "bias_hh_l"})
        names.push_back("lstm_head." + (kind + std::to_string(layer)) + direction);
  return names;
}

/// Both directions of all layers: [tokens, width] → [tokens, 2 hidden].
at::Tensor lstm(const PromptEncoderShape& shape, const at::Tensor& x, const Weights& weights) {
  std::vector<at::Tensor> ordered;
  for (const std::string& name : lstm_names(shape.lstm_layers)) ordered.push_back(weights.at(name));
  const at::Tensor zero = at::zeros({2 * shape.lstm_layers, 1, shape.hidden}, x.options());
  // Without dropout, `train` changes no value: it makes cuDNN keep what its backward pass needs.
  const auto out = at::lstm(x.unsqueeze(1), {zero, zero}, ordered, /*has_biases=*/true, shape.lstm_layers,
                            /*dropout=*/0, /*train=*/at::GradMode::is_enabled(), /*bidirectional=*/true,
                            /*batch_first=*/false);
  return std::get<0>(out).squeeze(1);
}

}  // namespace

at::Tensor encode_prompt(const PromptEncoderShape& shape, const Weights& weights) {
  at::Tensor x = weights.at("embedding.weight");
  if (shape.lstm) x = lstm(shape, x, weights);
  x = rectified(linear(x, weights, "mlp_head.0"));
  x = linear(x, weights, "mlp_head.2");
  return shape.lstm ? x : linear(rectified(x), weights, "mlp_head.4");
}

PromptEncoder::PromptEncoder(const PromptEncoderShape& shape) : Module("PromptEncoder"), shape_(shape) {
  add_parameter("embedding.weight", {shape.tokens, shape.width}, {nn::Init::kNormal, 1});
  if (shape.lstm) {
    add_lstm();
    add_linear("mlp_head.0", 2 * shape.hidden, 2 * shape.hidden);
    add_linear("mlp_head.2", 2 * shape.hidden, shape.width);
    return;
  }
  add_linear("mlp_head.0", shape.width, shape.hidden);
  add_linear("mlp_head.2", shape.hidden, shape.hidden);
  add_linear("mlp_head.4", shape.hidden, shape.width);
}

void PromptEncoder::add_linear(const std::string& name, int64_t in, int64_t out) {
  const nn::Init init{nn::Init::kUniform, 1 / std::sqrt(static_cast<double>(in))};
  add_parameter(name + ".weight", {out, in}, init);
  add_parameter(name + ".bias", {out}, init);
}

void PromptEncoder::add_lstm() {
  const int64_t gates = 4 * shape_.hidden;
  const nn::Init init{nn::Init::kUniform, 1 / std::sqrt(static_cast<double>(shape_.hidden))};
  for (const std::string& name : lstm_names(shape_.lstm_layers)) {
    const int64_t in = name.find("_l0") != std::string::npos ? shape_.width : 2 * shape_.hidden;
    if (name.find("bias") != std::string::npos)
      add_parameter(name, {gates}, init);
    else
      add_parameter(name, {gates, name.find("_ih_") != std::string::npos ? in : shape_.hidden}, init);
  }
}

nn::RowsList PromptEncoder::forward(const nn::RowsList&, const nn::Pass&) {
  Weights weights;
  for (const auto& [name, parameter] : parameters()) weights[name] = parameter->value;
  return {{encode_prompt(shape_, weights)}};
}

}  // namespace trainer::adapters
