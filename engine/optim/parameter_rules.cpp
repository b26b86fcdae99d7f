#include "engine/optim/parameter_rules.h"

#include <algorithm>
#include <cctype>
#include <span>
#include <string_view>

#include <fmt/format.h>

namespace trainer::optim {
namespace {

constexpr double kEmbeddingRate = 1e-6;  // PEFT's loraplus_lr_embedding

bool has(const std::string& name, const char* part) {
  return name.find(part) != std::string::npos;
}

// Names of modules in transformers and PEFT.
constexpr std::string_view kEmbeddings[] = {"shared",
                                            "embed_tokens",
                                            "wte",
                                            "wpe",
                                            "word_embeddings",
                                            "position_embeddings",
                                            "token_type_embeddings",
                                            "relative_attention_bias",
                                            "prompt_embeddings",
                                            "embedding"};
constexpr std::string_view kHeads[] = {"lm_head", "score", "classifier"};

bool has_module(const std::string& name, std::span<const std::string_view> modules) {
  const std::string path = "." + name + ".";
  return std::any_of(modules.begin(), modules.end(), [&](std::string_view module) {
    return path.find(fmt::format(".{}.", module)) != std::string::npos;
  });
}

}  // namespace

bool decays(const std::string& name) {
  std::string lower = name;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const char* part : {"bias", "layernorm", "layer_norm", "rmsnorm", "_norm.", ".ln_"})
    if (has(lower, part)) return false;
  return !has("." + lower + ".", ".norm.");
}

bool is_embedding(const std::string& name) {
  return has_module(name, kEmbeddings) && !has(name, "lora_");
}

bool is_hidden_matrix(const parallel::LogicalTensor& parameter) {
  const nn::Shape& shape = parameter.shape;
  return shape.size() == 2 && std::min(shape[0], shape[1]) > 1 && !has_module(parameter.name, kEmbeddings) &&
         !has_module(parameter.name, kHeads);
}

UpdateRule lora_plus_rule(const parallel::LogicalTensor& parameter, double ratio, double learning_rate) {
  const std::string& name = parameter.name;
  if (has(name, "lora_embedding_")) return {true, learning_rate > 0 ? kEmbeddingRate / learning_rate : 0};
  if (has(name, "lora_B") || parameter.shape.size() == 1) return {decays(name), ratio};
  return {true, 1};
}

}  // namespace trainer::optim
