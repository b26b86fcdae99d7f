#include "models/mlp/model.h"

#include <cmath>

#include "models/nn/dropout.h"

namespace trainer::models::mlp {
namespace {

std::string layer_name(size_t index) {
  return "fc" + std::to_string(index + 1);
}

/// As torch.nn.Linear: U(-1 / sqrt(in), 1 / sqrt(in)).
nn::Init uniform(int64_t in) {
  return {nn::Init::kUniform, 1 / std::sqrt(static_cast<double>(in))};
}

}  // namespace

Mlp::Mlp(const MlpConfig& c) : Model("Mlp", Task::kImageClassification), config_(c) {
  std::vector<int64_t> widths{c.input_size};
  widths.insert(widths.end(), c.hidden_sizes.begin(), c.hidden_sizes.end());
  widths.push_back(static_cast<int64_t>(c.labels.size()));
  for (size_t i = 0; i + 1 < widths.size(); ++i) {
    layers_.emplace_back(*this, layer_name(i), widths[i], widths[i + 1], true, uniform(widths[i]));
    layers_.back()->bias()->init = uniform(widths[i]);
  }
  name_tree();
}

at::Tensor Mlp::logits(const Batch& batch, const nn::Pass& pass) {
  return (*this)({{batch.pixels, batch.source}}, pass)[0].x;
}

nn::RowsList Mlp::forward(const nn::RowsList& in, const nn::Pass& pass) {
  nn::Rows x = in[0].with(in[0].x.to(layers_.front()->weight()->value.device()));
  for (size_t i = 0; i < layers_.size(); ++i) {
    x = (*layers_[i])(x, pass);
    if (i + 1 < layers_.size())
      x.x = nn::activate(x.x, config_.function, pass.dropout(layer_name(i), config_.dropout), x.layout);
  }
  return {x};
}

std::vector<std::string> Mlp::default_lora_targets() const {
  std::vector<std::string> names;
  for (size_t i = 0; i + 1 < layers_.size(); ++i) names.push_back(layer_name(i));
  return names;
}

std::string Mlp::output_head() const {
  return layer_name(layers_.size() - 1);
}

std::unique_ptr<Model> build(const BuildRequest& request) {
  return std::make_unique<Mlp>(parse_config(request));
}

}  // namespace trainer::models::mlp
