#include "models/smollm3/model.h"

#include "models/llama/model.h"

namespace trainer::models::smollm3 {

/// LLaMA whose queries and keys aren't rotated in every fourth layer, so that attention there depends on no position.
std::unique_ptr<Model> build(const BuildRequest& request) {
  using llama::Dialect;
  return llama::build(request, {.model_type = "smollm3",
                                .name = "SmolLM3",
                                .prefix = "SmolLM3",
                                .window = Dialect::Window::kWithoutRope,
                                .vocab_size = 128256,
                                .hidden_size = 2048,
                                .layers = 36,
                                .heads = 16,
                                .max_positions = 32768,
                                .kv_heads = 4,
                                .rope_theta = 2e6,
                                .tied_head = true,
                                .bos = {128000},
                                .eos = {128001},
                                .pad = {128004}});
}

}  // namespace trainer::models::smollm3
