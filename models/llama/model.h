// LLaMA 1 to 3 and the families that share its architecture (Mistral, Qwen2, Qwen3, Gemma), with Hugging Face's weight
// names.
#pragma once

#include "models/decoder_model.h"
#include "models/llama/block.h"
#include "models/nn/embedding_noise.h"

namespace trainer::models::llama {

/// "LlamaModel" and its counterparts: everything below the head.
class Decoder : public DecoderStack {
 public:
  explicit Decoder(const Config& config);
  nn::Embedding& embedding() override { return *embed_tokens_; }
  std::vector<nn::Module*> embeddings() override { return {&*embed_tokens_}; }
  std::vector<nn::Module*> blocks() override;
  int64_t width() const override { return config_.hidden_size; }

 protected:
  nn::Rows embed(const nn::Rows& ids, const nn::Pass& pass) override {
    return nn::with_noise((*embed_tokens_)(ids, pass), pass, embed_tokens_->path());
  }
  /// The rotary table; with rope_by_layer, also that of layers with a window.
  nn::RowsList block_inputs(const nn::Rows& states, const nn::Pass& pass) override;
  nn::Rows finish(const nn::Rows& states, const nn::Pass& pass) override { return (*norm_)(states, pass); }

 private:
  Config config_;
  nn::Slot<nn::Embedding> embed_tokens_;
  nn::Slot<nn::List<DecoderLayer>> layers_;
  nn::Slot<RmsNorm> norm_;
};

/// "LlamaForCausalLM", "LlamaForSequenceClassification" and their counterparts.
class LlamaModel : public DecoderModel {
 public:
  explicit LlamaModel(const Config& config);

  const Config& config() const { return config_; }
  std::vector<int64_t> end_tokens() const override { return config_.eos; }
  int64_t vocabulary() const override { return config_.vocab_size; }
  int64_t max_positions() const override { return config_.reach(); }
  std::vector<std::string> labels() const override { return config_.labels; }
  std::vector<std::string> default_lora_targets() const override { return {"q_proj", "v_proj"}; }
  Ia3Layers default_ia3_layers() const override {
    return {{config_.dialect.ia3_projection, "v_proj", "down_proj"}, {"down_proj"}};
  }
  std::string output_head() const override { return classifies() ? "score" : "lm_head"; }
  std::string base_prefix() const override { return "model."; }
  TensorPlan tensor_plan() const override;
  DecoderStack& stack() override { return *model_; }
  bool may_be_initialized(const std::string& parameter) const override { return parameter == "score.weight"; }
  std::string config_json() const override { return llama::config_json(config_); }

 protected:
  nn::Linear& head() override { return *head_; }
  double logit_soft_cap() const override { return classifies() ? 0 : config_.logit_soft_cap; }

 private:
  Config config_;
  nn::Slot<Decoder> model_;
  nn::Slot<nn::Linear> head_;
};

/// A model of a family that shares LLaMA's architecture.
std::unique_ptr<Model> build(const BuildRequest& request, const Dialect& dialect);

/// LLaMA itself.
std::unique_ptr<Model> build(const BuildRequest& request);

}  // namespace trainer::models::llama
