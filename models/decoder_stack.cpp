#include "models/decoder_stack.h"

namespace trainer::models {

at::Tensor DecoderStack::run(Chunk chunk, at::Tensor x, const nn::Pass& pass) {
  const std::vector<nn::Module*> all = blocks();
  if (chunk.begin == 0) x = embed(x, pass);
  nn::Tensors inputs = block_inputs(x, pass);
  inputs.insert(inputs.begin(), std::move(x));
  for (int64_t i = chunk.begin; i < chunk.end; ++i) inputs[0] = (*all[static_cast<size_t>(i)])(inputs, pass)[0];
  return chunk.end == static_cast<int64_t>(all.size()) ? finish(inputs[0], pass) : inputs[0];
}

nn::Tensors DecoderStack::forward(const nn::Tensors& in, const nn::Pass& pass) {
  return {run({0, static_cast<int64_t>(blocks().size())}, in[0], pass)};
}

}  // namespace trainer::models
