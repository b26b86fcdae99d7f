// BERT for sequence classification, with Hugging Face's weight names.
#pragma once

#include "models/bert/layer.h"
#include "models/model.h"

namespace trainer::models::bert {

/// norm(word + position + token type), then dropout. Every token has type 0: samples are not text pairs.
class BertEmbeddings : public nn::Module {
 public:
  explicit BertEmbeddings(const BertConfig& config);
  /// ids [T] → [T, D] fp32.
  nn::Rows operator()(const nn::Rows& ids, const nn::Pass& pass) { return Module::operator()({ids}, pass)[0]; }

 protected:
  nn::RowsList forward(const nn::RowsList& inputs, const nn::Pass& pass) override;

 private:
  BertConfig config_;
  nn::Slot<nn::Embedding> word_embeddings_, position_embeddings_, token_type_embeddings_;
  nn::Slot<nn::LayerNorm> layer_norm_;
};

class BertEncoder : public nn::Module {
 public:
  explicit BertEncoder(const BertConfig& config);
  nn::Rows operator()(const nn::Rows& x, const nn::Pass& pass) { return Module::operator()({x}, pass)[0]; }
  nn::List<BertLayer>& layers() { return *layer_; }

 protected:
  nn::RowsList forward(const nn::RowsList& inputs, const nn::Pass& pass) override;

 private:
  nn::Slot<nn::List<BertLayer>> layer_;
};

/// tanh(dense x) of the first row of each sample, the [CLS] token's. x and the result [samples, D].
class BertPooler : public nn::Module {
 public:
  explicit BertPooler(const BertConfig& config);
  nn::Rows operator()(const nn::Rows& x, const nn::Pass& pass) { return Module::operator()({x}, pass)[0]; }

 protected:
  nn::RowsList forward(const nn::RowsList& inputs, const nn::Pass& pass) override;

 private:
  nn::Slot<nn::Linear> dense_;
};

/// "BertModel": everything below the head.
class BertStack : public nn::Module {
 public:
  explicit BertStack(const BertConfig& config);
  /// ids [T] → [samples, D], one row per sample.
  nn::Rows operator()(const nn::Rows& ids, const nn::Pass& pass) { return Module::operator()({ids}, pass)[0]; }
  nn::List<BertLayer>& layers() { return encoder_->layers(); }

 protected:
  nn::RowsList forward(const nn::RowsList& inputs, const nn::Pass& pass) override;

 private:
  nn::Slot<BertEmbeddings> embeddings_;
  nn::Slot<BertEncoder> encoder_;
  nn::Slot<BertPooler> pooler_;
};

class BertForSequenceClassification : public Model {
 public:
  explicit BertForSequenceClassification(const BertConfig& config);

  at::Tensor logits(const Batch& batch, const nn::Pass& pass) override;
  int64_t vocabulary() const override { return config_.vocab_size; }
  int64_t max_positions() const override { return config_.max_position_embeddings; }
  std::vector<std::string> labels() const override { return config_.labels; }
  std::vector<nn::Module*> blocks() override;
  std::vector<std::string> default_lora_targets() const override { return {"query", "value"}; }
  Ia3Layers default_ia3_layers() const override { return {{"key", "value", "output.dense"}, {"output.dense"}}; }
  std::string output_head() const override { return "classifier"; }
  std::string base_prefix() const override { return "bert."; }
  /// The pooler too: checkpoints pre-trained only on masked language modeling lack one.
  bool may_be_initialized(const std::string& parameter) const override {
    return parameter.starts_with("classifier.") || parameter.starts_with("bert.pooler.");
  }
  std::string config_json() const override { return bert::config_json(config_); }

 protected:
  nn::RowsList forward(const nn::RowsList& inputs, const nn::Pass& pass) override;

 private:
  BertConfig config_;
  nn::Slot<BertStack> bert_;
  nn::Slot<nn::Linear> classifier_;
};

std::unique_ptr<Model> build(const BuildRequest& request);

}  // namespace trainer::models::bert
