#include "models/bert/model.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/zeros.h>

#include "models/nn/position_ids.h"

namespace trainer::models::bert {
namespace {

/// The index of each sample's first row: [samples].
at::Tensor first_rows(const nn::Layout& layout, at::Device device) {
  const at::Tensor rows = at::empty({layout.samples()}, at::kLong);
  for (int64_t s = 0; s < layout.samples(); ++s) rows.data_ptr<int64_t>()[s] = layout.spans[s].begin;
  return rows.to(device);
}

/// A layout of one row per sample.
nn::LayoutPtr one_each(const nn::Layout& layout) {
  auto rows = std::make_shared<nn::Layout>();
  for (const int64_t position : layout.sample_index) rows->append(1, position);
  return rows;
}

}  // namespace

BertEmbeddings::BertEmbeddings(const BertConfig& c)
    : Module("BertEmbeddings"),
      config_(c),
      word_embeddings_(*this, "word_embeddings", c.vocab_size, c.hidden_size, normal(c)),
      position_embeddings_(*this, "position_embeddings", c.max_position_embeddings, c.hidden_size, normal(c)),
      token_type_embeddings_(*this, "token_type_embeddings", c.type_vocab_size, c.hidden_size, normal(c)),
      layer_norm_(*this, "LayerNorm", c.hidden_size, c.layer_norm_eps) {}

nn::Tensors BertEmbeddings::forward(const nn::Tensors& in, const nn::Pass& pass) {
  const at::Tensor positions =
      nn::position_ids(*pass.source, pass, config_.max_position_embeddings, "max_position_embeddings", in[0].device());
  const at::Tensor type = (*token_type_embeddings_)(at::zeros({1}, in[0].options()), pass);  // [1, D], for all tokens
  const at::Tensor x = (*word_embeddings_)(in[0], pass) + type + (*position_embeddings_)(positions, pass);
  return {nn::dropout((*layer_norm_)(x, pass), pass.dropout(path(), config_.hidden_dropout_prob), pass.source)};
}

BertEncoder::BertEncoder(const BertConfig& c) : Module("BertEncoder"), layer_(*this, "layer") {
  for (int64_t i = 0; i < c.num_hidden_layers; ++i) layer_->add(c, i);
}

nn::Tensors BertEncoder::forward(const nn::Tensors& in, const nn::Pass& pass) {
  at::Tensor x = in[0];
  for (int64_t i = 0; i < layer_->size(); ++i) x = (*layer_)[i]({x}, pass)[0];
  return {x};
}

BertPooler::BertPooler(const BertConfig& c)
    : Module("BertPooler"), dense_(*this, "dense", c.hidden_size, c.hidden_size, true, normal(c)) {}

nn::Tensors BertPooler::forward(const nn::Tensors& in, const nn::Pass& pass) {
  return {(*dense_)(in[0], pass.rows, pass).tanh()};
}

BertStack::BertStack(const BertConfig& c)
    : Module("BertModel"),
      embeddings_(*this, "embeddings", c),
      encoder_(*this, "encoder", c),
      pooler_(*this, "pooler", c) {}

nn::Tensors BertStack::forward(const nn::Tensors& in, const nn::Pass& pass) {
  const at::Tensor x = (*encoder_)((*embeddings_)(in[0], pass), pass);
  return {(*pooler_)(at::index_select(x, 0, first_rows(*pass.source, x.device())), pass)};
}

BertForSequenceClassification::BertForSequenceClassification(const BertConfig& c)
    : Model("BertForSequenceClassification", Task::kSequenceClassification),
      config_(c),
      bert_(*this, "bert", c),
      classifier_(*this, "classifier", c.hidden_size, static_cast<int64_t>(c.labels.size()), true, normal(c)) {
  name_tree();
}

at::Tensor BertForSequenceClassification::logits(const Batch& batch, const nn::Pass& given) {
  nn::Pass pass = given;
  pass.source = batch.source;
  pass.rows = one_each(*batch.source);
  return (*this)({batch.source_ids}, pass)[0];
}

nn::Tensors BertForSequenceClassification::forward(const nn::Tensors& in, const nn::Pass& pass) {
  const nn::DropoutRule dropped = pass.dropout("dropout", config_.classifier_dropout);
  return {(*classifier_)(nn::dropout((*bert_)(in[0], pass), dropped, pass.rows), pass.rows, pass)};
}

std::vector<nn::Module*> BertForSequenceClassification::blocks() {
  std::vector<nn::Module*> all;
  for (int64_t i = 0; i < bert_->layers().size(); ++i) all.push_back(&bert_->layers()[i]);
  return all;
}

std::unique_ptr<Model> build(const BuildRequest& request) {
  return std::make_unique<BertForSequenceClassification>(parse_config(request));
}

}  // namespace trainer::models::bert
