#include "models/decoder_stack.h"

namespace trainer::models {

at::Tensor DecoderStack::run(Stretch stretch, at::Tensor x, const nn::Pass& pass) {
  const std::vector<nn::Module*> all = blocks();
  if (stretch.begin == 0) x = embed(x, pass);
  nn::Tensors inputs = beside_states(x, pass);
  inputs.insert(inputs.begin(), std::move(x));
  for (int64_t i = stretch.begin; i < stretch.end; ++i) inputs[0] = (*all[static_cast<size_t>(i)])(inputs, pass)[0];
  return stretch.end == static_cast<int64_t>(all.size()) ? finish(inputs[0], pass) : inputs[0];
}

nn::Tensors DecoderStack::forward(const nn::Tensors& in, const nn::Pass& pass) {
  return {run({0, static_cast<int64_t>(blocks().size())}, in[0], pass)};
}

}  // namespace trainer::models
