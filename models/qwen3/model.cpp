#include "models/qwen3/model.h"

#include "models/llama/model.h"

namespace trainer::models::qwen3 {

/// LLaMA with normalized queries and keys, and a head_dim independent of the other sizes.
std::unique_ptr<Model> build(const BuildRequest& request) {
  using llama::Dialect;
  return llama::build(request, {.model_type = "qwen3",
                                .name = "Qwen3",
                                .prefix = "Qwen3",
                                .mlp_bias_key = false,
                                .qk_norm = true,
                                .window = Dialect::Window::kByLayer,
                                .vocab_size = 151936,
                                .intermediate_size = 22016,
                                .max_positions = 32768,
                                .kv_heads = 32,
                                .head_dim = 128,
                                .bos = {},
                                .eos = {},
                                .ia3_projection = "q_proj"});
}

}  // namespace trainer::models::qwen3
