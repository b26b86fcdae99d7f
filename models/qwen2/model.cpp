#include "models/qwen2/model.h"

#include "models/llama/model.h"

namespace trainer::models::qwen2 {

/// LLaMA with biases for queries, keys and values; some layers may use a sliding window.
std::unique_ptr<Model> build(const BuildRequest& request) {
  using llama::Dialect;
  return llama::build(request, {.model_type = "qwen2",
                                .name = "Qwen2",
                                .prefix = "Qwen2",
                                .attention_bias = Dialect::Bias::kAlwaysQkv,
                                .mlp_bias_key = false,
                                .window = Dialect::Window::kByLayer,
                                .vocab_size = 151936,
                                .intermediate_size = 22016,
                                .max_positions = 32768,
                                .kv_heads = 32,
                                .bos = {},
                                .eos = {},
                                .ia3_projection = "q_proj"});
}

}  // namespace trainer::models::qwen2
