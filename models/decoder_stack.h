// What a decoder-only model is below its head: embeddings, blocks that are called alike, a final norm.
#pragma once

#include "models/nn/linear.h"

namespace trainer::models {

/// Blocks [begin, end) of a decoder, with what comes before the first one and after the last one.
using Stretch = nn::Range;

class DecoderStack : public nn::Module {
 public:
  using Module::Module;

  /// ids [T] laid out by pass.source → [T, D], after the final norm.
  at::Tensor operator()(const at::Tensor& ids, const nn::Pass& pass) { return Module::operator()({ids}, pass)[0]; }
  /// Some of the blocks, as one stage of a pipeline runs them. `x`: the ids [T] where they are the first, else the
  /// states [T, D] fp32 before them. Returns the states after them, through the final norm where they are the last.
  at::Tensor run(Stretch stretch, at::Tensor x, const nn::Pass& pass);

  virtual nn::Embedding& embedding() = 0;
  /// The modules that are run before the first block.
  virtual std::vector<nn::Module*> embeddings() = 0;
  virtual std::vector<nn::Module*> blocks() = 0;
  /// D.
  virtual int64_t width() const = 0;

 protected:
  /// ids [T] → states [T, D] fp32, which the first block takes.
  virtual at::Tensor embed(const at::Tensor& ids, const nn::Pass& pass) = 0;
  /// What every block takes beside the states; made once a pass.
  virtual nn::Tensors beside_states(const at::Tensor& states, const nn::Pass& pass) { return {}; }
  /// The final norm.
  virtual at::Tensor finish(const at::Tensor& states, const nn::Pass& pass) = 0;

  nn::Tensors forward(const nn::Tensors& inputs, const nn::Pass& pass) override;
};

}  // namespace trainer::models
