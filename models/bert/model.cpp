#include "models/bert/model.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/zeros.h>

#include "models/nn/device/layout_tensors.h"
#include "models/nn/embedding_noise.h"
#include "models/nn/position_ids.h"

namespace trainer::models::bert {
namespace {

/// The index of each sample's first row: [samples].
at::Tensor first_rows(const nn::Layout& layout, at::Device device) {
  const at::Tensor rows = nn::device::host_memory({layout.samples()}, at::kLong, device);
  for (int64_t s = 0; s < layout.samples() && !rows.is_meta(); ++s) rows.data_ptr<int64_t>()[s] = layout.spans[s].begin;
  return nn::device::sent(rows, device);
}

}  // namespace

BertEmbeddings::BertEmbeddings(const BertConfig& c)
    : Module("BertEmbeddings"),
      config_(c),
      word_embeddings_(*this, "word_embeddings", c.vocab_size, c.hidden_size, normal(c)),
      position_embeddings_(*this, "position_embeddings", c.max_position_embeddings, c.hidden_size, normal(c)),
      token_type_embeddings_(*this, "token_type_embeddings", c.type_vocab_size, c.hidden_size, normal(c)),
      layer_norm_(*this, "LayerNorm", c.hidden_size, c.layer_norm_eps) {
  word_embeddings_->freeze_row(c.pad_token_id);
}

nn::RowsList BertEmbeddings::forward(const nn::RowsList& in, const nn::Pass& pass) {
  const nn::Rows& ids = in[0];
  const at::Tensor positions =
      nn::position_ids(*ids.layout, pass, config_.max_position_embeddings, "max_position_embeddings", ids.x.device());
  const nn::Rows type = (*token_type_embeddings_)({at::zeros({1}, ids.x.options())}, pass);  // [1, D], for all tokens
  const at::Tensor x = nn::with_noise((*word_embeddings_)(ids, pass), pass, word_embeddings_->path()).x + type.x +
                       (*position_embeddings_)(ids.with(positions), pass).x;
  const at::Tensor normed = (*layer_norm_)(ids.with(x), pass).x;
  return {ids.with(nn::dropout(normed, pass.dropout(path(), config_.hidden_dropout_prob), ids.layout))};
}

BertEncoder::BertEncoder(const BertConfig& c) : Module("BertEncoder"), layer_(*this, "layer") {
  for (int64_t i = 0; i < c.num_hidden_layers; ++i) layer_->add(c, i);
}

nn::RowsList BertEncoder::forward(const nn::RowsList& in, const nn::Pass& pass) {
  nn::Rows x = in[0];
  for (int64_t i = 0; i < layer_->size(); ++i) x = (*layer_)[i]({x}, pass)[0];
  return {x};
}

BertPooler::BertPooler(const BertConfig& c)
    : Module("BertPooler"), dense_(*this, "dense", c.hidden_size, c.hidden_size, true, normal(c)) {}

nn::RowsList BertPooler::forward(const nn::RowsList& in, const nn::Pass& pass) {
  return {in[0].with((*dense_)(in[0], pass).x.tanh())};
}

BertStack::BertStack(const BertConfig& c)
    : Module("BertModel"),
      embeddings_(*this, "embeddings", c),
      encoder_(*this, "encoder", c),
      pooler_(*this, "pooler", c) {}

nn::RowsList BertStack::forward(const nn::RowsList& in, const nn::Pass& pass) {
  const nn::Rows x = (*encoder_)((*embeddings_)(in[0], pass), pass);
  const at::Tensor first = at::index_select(x.x, 0, first_rows(*x.layout, x.x.device()));
  return {(*pooler_)({first, nn::one_row_each(x.layout->sample_index)}, pass)};
}

BertForSequenceClassification::BertForSequenceClassification(const BertConfig& c)
    : Model("BertForSequenceClassification", Task::kSequenceClassification),
      config_(c),
      bert_(*this, "bert", c),
      classifier_(*this, "classifier", c.hidden_size, static_cast<int64_t>(c.labels.size()), true, normal(c)) {
  name_tree();
}

at::Tensor BertForSequenceClassification::logits(const Batch& batch, const nn::Pass& pass) {
  return (*this)({{batch.source_ids, batch.source}}, pass)[0].x;
}

nn::RowsList BertForSequenceClassification::forward(const nn::RowsList& in, const nn::Pass& pass) {
  const nn::DropoutRule dropped = pass.dropout("dropout", config_.classifier_dropout);
  const nn::Rows pooled = (*bert_)(in[0], pass);
  return {(*classifier_)(pooled.with(nn::dropout(pooled.x, dropped, pooled.layout)), pass)};
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
