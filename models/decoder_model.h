// Decoder-only families (LLaMA and its like, GPT-2): predict each next token, or the class of a sample at its last one.
#pragma once

#include "models/decoder_stack.h"
#include "models/model.h"

namespace trainer::models {

class DecoderModel : public Model {
 public:
  using Model::Model;

  at::Tensor logits(const Batch& batch, const nn::Pass& pass) override;
  /// As Model's, but the head works on rows whose label counts only.
  at::Tensor loss_sum(const Batch& batch, const nn::Pass& pass) override;
  at::Tensor begin_decoding(const Batch& batch, nn::Pass& pass, nn::DecodeCache& cache) override;
  at::Tensor decode(const at::Tensor& tokens, nn::Pass& pass) override;
  std::vector<nn::Module*> blocks() override { return stack().blocks(); }

  /// All but the head. While decoding, pass.cache holds what came before each sample's tokens; the blocks add theirs,
  /// `lengths` is moved on by this class.
  virtual DecoderStack& stack() = 0;
  /// What the stack makes of `batch` [T, D]; and of the next `tokens` [samples] while decoding: for the stages of a
  /// pipeline that don't run the head.
  at::Tensor states(const Batch& batch, const nn::Pass& pass);
  at::Tensor decode_states(const at::Tensor& tokens, nn::Pass& pass);

 protected:
  /// Hidden states [R, D] of the rows `rows` → logits [R, V].
  virtual at::Tensor head(const at::Tensor& hidden, const nn::LayoutPtr& rows, const nn::Pass& pass) = 0;

  /// Inputs: ids [T], and optionally numbers of the rows that the head is for [R].
  nn::Tensors forward(const nn::Tensors& inputs, const nn::Pass& pass) override;

 private:
  at::Tensor logits_of(const Batch& batch, const at::Tensor& rows, const nn::LayoutPtr& layout, const nn::Pass& pass);
};

}  // namespace trainer::models
