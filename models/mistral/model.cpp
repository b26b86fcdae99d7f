#include "models/mistral/model.h"

#include "models/llama/model.h"

namespace trainer::models::mistral {

/// LLaMA without biases; all layers may use a sliding window.
std::unique_ptr<Model> build(const BuildRequest& request) {
  using llama::Dialect;
  return llama::build(request, {.model_type = "mistral",
                                .name = "Mistral",
                                .prefix = "Mistral",
                                .attention_bias = Dialect::Bias::kNever,
                                .mlp_bias_key = false,
                                .window = Dialect::Window::kAllLayers,
                                .intermediate_size = 14336,
                                .max_positions = 131072,
                                .kv_heads = 8});
}

}  // namespace trainer::models::mistral
