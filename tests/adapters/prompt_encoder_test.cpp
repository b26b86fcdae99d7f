// What a GPU's kernels ask of p-tuning's network, which no value shows on a CPU.
#include <gtest/gtest.h>

#include <ATen/ops/ones.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "engine/adapters/prompt_encoder.h"

namespace trainer::testing {
namespace {

thread_local int trains = -1;  // the last LSTM's argument `train`; -1: none has run

std::unique_ptr<at::ObserverContext> note_lstm(const at::RecordFunction& call) {
  if (std::string_view(call.name()) == "aten::lstm") trains = call.inputs()[6].toBool() ? 1 : 0;
  return nullptr;
}

std::map<std::string, at::Tensor> weights_of(const adapters::PromptEncoderShape& shape) {
  adapters::PromptEncoder network(shape);
  std::map<std::string, at::Tensor> weights;
  for (const auto& [name, parameter] : network.parameters())
    weights[name] = at::ones(parameter->shape).mul_(0.1).set_requires_grad(true);
  return weights;
}

// "cudnn RNN backward can only be called in training mode": otherwise cuDNN keeps nothing for it.
TEST(PromptEncoder, TheLstmIsInTrainingModeWhereGradientsAreWanted) {
  const adapters::PromptEncoderShape shape{.lstm = true, .tokens = 3, .width = 4, .hidden = 5};
  const auto weights = weights_of(shape);
  const auto handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback(note_lstm).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
  const at::Tensor prompt = adapters::encode_prompt(shape, weights);
  EXPECT_EQ(trains, 1);
  prompt.sum().backward();
  EXPECT_TRUE(weights.at("lstm_head.weight_hh_l0").grad().defined());
  {
    const at::NoGradGuard no_grad;
    adapters::encode_prompt(shape, weights);
  }
  EXPECT_EQ(trains, 0);
  at::removeCallback(handle);
}

}  // namespace
}  // namespace trainer::testing
