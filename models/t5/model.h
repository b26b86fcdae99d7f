// T5ForConditionalGeneration (v1.0 and v1.1), with Hugging Face's weight names.
#pragma once

#include <optional>

#include "models/encoder_cache.h"
#include "models/model.h"
#include "models/t5/block.h"

namespace trainer::models::t5 {

class T5Stack : public nn::Module {
 public:
  T5Stack(const T5Config& config, bool decoder, const nn::ParameterPtr& shared);
  /// ids [T], and for a decoder the encoder's output → [T, D] in the compute dtype, after the final norm and its
  /// dropout.
  nn::Rows operator()(const nn::Rows& ids, const nn::Rows& memory, const nn::Pass& pass);
  nn::List<T5Block>& blocks() { return *block_; }

 protected:
  nn::RowsList forward(const nn::RowsList& inputs, const nn::Pass& pass) override;

 private:
  double dropout_;
  nn::Slot<nn::Embedding> embed_tokens_;
  nn::Slot<nn::List<T5Block>> block_;
  nn::Slot<T5LayerNorm> final_layer_norm_;
};

class T5Model : public Model {
 public:
  explicit T5Model(const T5Config& config);

  at::Tensor logits(const Batch& batch, const nn::Pass& pass) override;
  at::Tensor loss_sum(const Batch& batch, const nn::Pass& pass) override;
  nn::Rows begin_decoding(const Batch& batch, const nn::Pass& pass) override;
  at::Tensor decode(const at::Tensor& tokens, const nn::Pass& pass) override;
  std::string keep_encoder_output(int64_t bytes, bool dropout) override;
  int64_t kept_encoder_bytes() const override { return encoder_cache_ ? encoder_cache_->bytes() : 0; }
  std::vector<int64_t> end_tokens() const override { return {config_.eos_token_id}; }
  int64_t vocabulary() const override { return config_.vocab_size; }
  std::vector<nn::Module*> blocks() override;
  std::vector<std::string> default_lora_targets() const override { return {"q", "v"}; }
  Ia3Layers default_ia3_layers() const override { return {{"k", "v", "wo"}, {"wo"}}; }
  std::string output_head() const override { return "lm_head"; }
  TensorPlan tensor_plan() const override;
  std::string config_json() const override;

 protected:
  /// Inputs: ids of the encoder, ids of the decoder, and optionally labels. Returns logits, or with labels the sum of
  /// their losses.
  nn::RowsList forward(const nn::RowsList& inputs, const nn::Pass& pass) override;

 private:
  /// The encoder's output for rows of ids.
  nn::Rows encoded(const nn::Rows& ids, const nn::Pass& pass);
  /// What the head is applied to, [U, D].
  nn::Rows scaled(const nn::Rows& hidden) const;
  /// Shifts right inside every sample; the first token is the start token, -100 becomes padding.
  at::Tensor decoder_inputs(const Batch& batch) const;

  T5Config config_;
  nn::Slot<nn::Embedding> shared_;
  nn::Slot<T5Stack> encoder_, decoder_;
  nn::Slot<nn::Linear> lm_head_;
  std::optional<EncoderCache> encoder_cache_;
};

std::unique_ptr<Model> build(const BuildRequest& request);

}  // namespace trainer::models::t5
