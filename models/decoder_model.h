// Decoder-only families (the LLaMA family, GPT-2): predict each next token, or a sample's class at its last token.
#pragma once

#include "models/decoder_stack.h"
#include "models/model.h"

namespace trainer::models {

class DecoderModel : public Model {
 public:
  using Model::Model;

  at::Tensor logits(const Batch& batch, const nn::Pass& pass) override;
  /// Like Model's, but runs the head only on rows whose label counts. Of pairs: the sum of pass.preference's losses.
  at::Tensor loss_sum(const Batch& batch, const nn::Pass& pass) override;
  /// What loss_sum() computes the loss of, on the host: the ids [T] with their layout, the indices [R] of the rows
  /// whose label counts with the layout of these (undefined: all rows), and their labels. Not for models that classify.
  static nn::RowsList loss_inputs(const Batch& batch);
  /// Sum of the cross-entropy over such inputs, which may be on the model's device.
  at::Tensor loss_of_inputs(const nn::RowsList& inputs, const nn::Pass& pass) { return (*this)(inputs, pass)[0].x; }
  /// The log-probability of the learned tokens of each span, [spans] fp64. Without autograd.
  at::Tensor log_probs(const Batch& batch, const nn::Pass& pass);
  nn::Rows begin_decoding(const Batch& batch, const nn::Pass&) override { return {batch.source_ids, batch.source}; }
  at::Tensor decode(const at::Tensor& tokens, const nn::Pass& pass) override;
  std::vector<nn::Module*> blocks() override { return stack().blocks(); }

  /// Everything but the head. While decoding, pass.cache holds the tokens that precede each sample's new ones; the
  /// blocks append theirs.
  virtual DecoderStack& stack() = 0;
  /// The stack's output for `batch` [T, D], and for the `tokens` of a step while decoding: used by pipeline stages that
  /// don't run the head.
  nn::Rows states(const Batch& batch, const nn::Pass& pass);
  nn::Rows decode_states(const at::Tensor& tokens, const nn::Pass& pass);

 protected:
  /// Hidden states [R, D] → logits [R, V], before the cap.
  virtual nn::Linear& head() = 0;
  /// Soft cap of the logits; 0: none.
  virtual double logit_soft_cap() const { return 0; }

  /// Inputs: ids [T]; the indices [R] of the rows that the head runs on, with the layout of those rows (undefined: all
  /// rows); and optionally their labels. Returns logits, or with labels the sum of their losses.
  nn::RowsList forward(const nn::RowsList& inputs, const nn::Pass& pass) override;

 private:
  nn::Rows capped_head(const nn::Rows& hidden, const nn::Pass& pass);
  at::Tensor logits_of(const Batch& batch, const nn::Rows& picked, const nn::Pass& pass);
};

}  // namespace trainer::models
