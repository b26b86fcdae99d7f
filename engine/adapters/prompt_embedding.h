#pragma once

#include <optional>

#include "engine/adapters/prompt_encoder.h"
#include "models/nn/linear.h"

namespace trainer::adapters {

/// An embedding that returns row k of a learned prompt for id -(k + 1), and its own rows for other ids. The prompt
/// [tokens, width] is a weight ("prompt_embeddings"), or the output of a network ("prompt_encoder"). Source: Lester et
/// al. 2021.
class PromptEmbedding : public nn::Embedding {
 public:
  PromptEmbedding(const nn::Embedding& base, int64_t tokens);
  PromptEmbedding(const nn::Embedding& base, const PromptEncoderShape& encoder);

  const nn::ParameterPtr& prompt() const { return prompt_; }  // null: computed by the network

 protected:
  nn::RowsList forward(const nn::RowsList& inputs, const nn::Pass& pass) override;

 private:
  nn::ParameterPtr prompt_;
  std::optional<nn::Slot<PromptEncoder>> encoder_;
};

}  // namespace trainer::adapters
