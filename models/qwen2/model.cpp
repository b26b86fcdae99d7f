#include "models/qwen2/model.h"

#include "models/llama/model.h"

namespace trainer::models::qwen2 {

/// LLaMA with biases of queries, keys and values; some layers may look back on a window only.
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
                                .eos = {}});
}

}  // namespace trainer::models::qwen2
