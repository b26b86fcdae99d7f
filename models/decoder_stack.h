// A decoder-only model below its head: embeddings, blocks with one signature, a final norm.
#pragma once

#include "models/nn/linear.h"

namespace trainer::models {

/// Blocks [begin, end) of a decoder, including the embeddings before the first block and the norm after the last.
using Chunk = nn::Range;

class DecoderStack : public nn::Module {
 public:
  using Module::Module;

  /// ids [T] → [T, D], after the final norm.
  nn::Rows operator()(const nn::Rows& ids, const nn::Pass& pass) { return Module::operator()({ids}, pass)[0]; }
  /// Runs some of the blocks, as one pipeline stage does. `x`: the ids [T] if the first block is among them, else the
  /// states [T, D] fp32 before them. Returns the states after them, after the final norm if the last block is among
  /// them.
  nn::Rows run(Chunk chunk, nn::Rows x, const nn::Pass& pass);

  virtual nn::Embedding& embedding() = 0;
  /// The modules that run before the first block.
  virtual std::vector<nn::Module*> embeddings() = 0;
  virtual std::vector<nn::Module*> blocks() = 0;
  /// D.
  virtual int64_t width() const = 0;

 protected:
  /// ids [T] → states [T, D] fp32, the first block's input.
  virtual nn::Rows embed(const nn::Rows& ids, const nn::Pass& pass) = 0;
  /// The other inputs of every block; computed once per pass.
  virtual nn::RowsList block_inputs(const nn::Rows& states, const nn::Pass& pass) { return {}; }
  /// The final norm.
  virtual nn::Rows finish(const nn::Rows& states, const nn::Pass& pass) = 0;

  nn::RowsList forward(const nn::RowsList& inputs, const nn::Pass& pass) override;
};

}  // namespace trainer::models
