// GPT-2 for language modeling or sequence classification, with Hugging Face's weight names.
#pragma once

#include "models/decoder_model.h"
#include "models/gpt2/block.h"

namespace trainer::models::gpt2 {

/// "GPT2Model": everything below the head.
class GPT2Stack : public DecoderStack {
 public:
  explicit GPT2Stack(const GPT2Config& config);
  nn::Embedding& embedding() override { return *wte_; }
  std::vector<nn::Module*> embeddings() override { return {&*wte_, &*wpe_}; }
  std::vector<nn::Module*> blocks() override;
  int64_t width() const override { return config_.n_embd; }

 protected:
  nn::Rows embed(const nn::Rows& ids, const nn::Pass& pass) override;
  nn::Rows finish(const nn::Rows& states, const nn::Pass& pass) override { return (*ln_f_)(states, pass); }

 private:
  GPT2Config config_;
  nn::Slot<nn::Embedding> wte_, wpe_;
  nn::Slot<nn::List<GPT2Block>> h_;
  nn::Slot<nn::LayerNorm> ln_f_;
};

/// "GPT2LMHeadModel" or "GPT2ForSequenceClassification".
class GPT2WithHead : public DecoderModel {
 public:
  explicit GPT2WithHead(const GPT2Config& config);

  std::vector<int64_t> end_tokens() const override { return config_.eos; }
  int64_t vocabulary() const override { return config_.vocab_size; }
  int64_t max_positions() const override { return config_.n_positions; }
  std::vector<std::string> labels() const override { return config_.labels; }
  std::vector<std::string> default_lora_targets() const override { return {"c_attn"}; }
  Ia3Layers default_ia3_layers() const override { return {{"c_attn", "mlp.c_proj"}, {"mlp.c_proj"}}; }
  std::string output_head() const override { return classifies() ? "score" : "lm_head"; }
  std::string base_prefix() const override { return "transformer."; }
  TensorPlan tensor_plan() const override;
  DecoderStack& stack() override { return *transformer_; }
  bool may_be_initialized(const std::string& parameter) const override { return parameter == "score.weight"; }
  std::string config_json() const override { return gpt2::config_json(config_); }

 protected:
  nn::Linear& head() override { return *head_; }

 private:
  GPT2Config config_;
  nn::Slot<GPT2Stack> transformer_;
  nn::Slot<nn::Linear> head_;
};

std::unique_ptr<Model> build(const BuildRequest& request);

}  // namespace trainer::models::gpt2
