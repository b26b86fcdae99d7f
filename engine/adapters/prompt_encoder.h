#pragma once

#include <map>
#include <string>

#include "models/nn/module.h"

namespace trainer::adapters {

struct PromptEncoderShape {
  bool lstm = false;  // false: three linear layers
  int64_t tokens = 0, width = 0, hidden = 0;
  int64_t lstm_layers = 2;
};

/// The prompt [tokens, width] computed from the weights, which are keyed by their names in PromptEncoder.
at::Tensor encode_prompt(const PromptEncoderShape& shape, const std::map<std::string, at::Tensor>& weights);

/// P-tuning's small network, whose output is the prompt: the network is trained instead of the prompt itself. Source:
/// Liu et al. 2021.
class PromptEncoder : public nn::Module {
 public:
  explicit PromptEncoder(const PromptEncoderShape& shape);

  at::Tensor operator()(const nn::Pass& pass) { return Module::operator()({}, pass)[0].x; }
  const PromptEncoderShape& shape() const { return shape_; }

 protected:
  nn::RowsList forward(const nn::RowsList& inputs, const nn::Pass& pass) override;

 private:
  void add_linear(const std::string& name, int64_t in, int64_t out);
  void add_lstm();

  PromptEncoderShape shape_;
};

}  // namespace trainer::adapters
