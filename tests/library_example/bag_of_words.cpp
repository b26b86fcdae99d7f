#include "bag_of_words.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>
#include <nlohmann/json.hpp>

#include "models/class_names.h"
#include "models/nn/config_reader.h"
#include "models/nn/device/layout_tensors.h"

namespace example {
namespace {

constexpr nn::Init kNormal{nn::Init::kNormal, 0.02};

Config parse_config(const models::BuildRequest& request) {
  nn::ConfigReader reader(request.config_json, request.origin, "the bag of words", request.strict);
  Config c;
  reader.number("vocab_size", 1, c.vocab_size);
  if (!reader.has("vocab_size")) reader.problem("vocab_size is required");
  reader.number("hidden_size", 1, c.hidden_size);
  reader.number("num_hidden_layers", 0, c.num_hidden_layers);
  reader.number("dropout", 0.0, 0.99, c.dropout);
  c.labels = models::read_class_names(reader, request);
  reader.skip_common();
  reader.finish();
  return c;
}

/// The mean of each sample's rows: [T, D] → [samples, D].
nn::Rows mean_of_samples(const nn::Rows& words) {
  const auto& numbers = nn::device::tensors_of(*words.layout, words.x.device());
  const at::Tensor sums =
      at::zeros({words.layout->samples(), words.x.size(1)}, words.x.options()).index_add(0, numbers.span, words.x);
  return {sums / numbers.length.unsqueeze(1), nn::one_row_each(words.layout->sample_index)};
}

}  // namespace

BagOfWordsLayer::BagOfWordsLayer(const Config& c)
    : Module("BagOfWordsLayer"),
      dropout_(c.dropout),
      norm_(*this, "norm", c.hidden_size, 1e-5),
      fc1_(*this, "fc1", c.hidden_size, 4 * c.hidden_size, true, kNormal),
      fc2_(*this, "fc2", 4 * c.hidden_size, c.hidden_size, true, kNormal) {}

nn::RowsList BagOfWordsLayer::forward(const nn::RowsList& in, const nn::Pass& pass) {
  const nn::Rows& x = in[0];
  nn::Rows y = (*fc1_)((*norm_)(x, pass), pass);
  y.x = nn::activate(y.x, nn::Activation::kGelu, {}, y.layout);
  y = (*fc2_)(y, pass);
  return {x.with(nn::dropout_add(x.x, y.x, pass.dropout(path(), dropout_), x.layout))};
}

BagOfWords::BagOfWords(const Config& c)
    : Model("BagOfWordsForSequenceClassification", models::Task::kSequenceClassification),
      config_(c),
      embedding_(*this, "embedding", c.vocab_size, c.hidden_size, kNormal),
      layers_(*this, "layers"),
      classifier_(*this, "classifier", c.hidden_size, static_cast<int64_t>(c.labels.size()), true, kNormal) {
  for (int64_t i = 0; i < c.num_hidden_layers; ++i) layers_->add(c);
  name_tree();
}

at::Tensor BagOfWords::logits(const models::Batch& batch, const nn::Pass& pass) {
  return (*this)({{batch.source_ids, batch.source}}, pass)[0].x;
}

nn::RowsList BagOfWords::forward(const nn::RowsList& in, const nn::Pass& pass) {
  nn::Rows x = mean_of_samples((*embedding_)(in[0], pass));
  for (int64_t i = 0; i < layers_->size(); ++i) x = (*layers_)[i]({x}, pass)[0];
  return {(*classifier_)(x, pass)};
}

std::vector<nn::Module*> BagOfWords::blocks() {
  std::vector<nn::Module*> all;
  for (int64_t i = 0; i < layers_->size(); ++i) all.push_back(&(*layers_)[i]);
  return all;
}

std::string BagOfWords::config_json() const {
  nlohmann::json json = {{"architectures", {class_name()}},
                         {"model_type", "bag_of_words"},
                         {"vocab_size", config_.vocab_size},
                         {"hidden_size", config_.hidden_size},
                         {"num_hidden_layers", config_.num_hidden_layers},
                         {"dropout", config_.dropout}};
  models::write_class_names(json, config_.labels);
  return json.dump(2) + "\n";
}

std::unique_ptr<models::Model> build(const models::BuildRequest& request) {
  return std::make_unique<BagOfWords>(parse_config(request));
}

}  // namespace example
