#include "models/decoder_stack.h"

namespace trainer::models {

nn::Rows DecoderStack::run(Chunk chunk, nn::Rows x, const nn::Pass& pass) {
  const std::vector<nn::Module*> all = blocks();
  if (chunk.begin == 0) x = embed(x, pass);
  nn::RowsList inputs = block_inputs(x, pass);
  inputs.insert(inputs.begin(), std::move(x));
  for (int64_t i = chunk.begin; i < chunk.end; ++i) inputs[0] = (*all[static_cast<size_t>(i)])(inputs, pass)[0];
  return chunk.end == static_cast<int64_t>(all.size()) ? finish(inputs[0], pass) : inputs[0];
}

nn::RowsList DecoderStack::forward(const nn::RowsList& in, const nn::Pass& pass) {
  return {run({0, static_cast<int64_t>(blocks().size())}, in[0], pass)};
}

}  // namespace trainer::models
