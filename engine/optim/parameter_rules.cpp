#include "engine/optim/parameter_rules.h"

#include <algorithm>
#include <cctype>

namespace trainer::optim {
namespace {

constexpr double kEmbeddingRate = 1e-6;  // PEFT's loraplus_lr_embedding

bool has(const std::string& name, const char* part) {
  return name.find(part) != std::string::npos;
}

}  // namespace

bool decays(const std::string& name) {
  std::string lower = name;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const char* part : {"bias", "layernorm", "layer_norm", "rmsnorm", "_norm.", ".ln_"})
    if (has(lower, part)) return false;
  return !has("." + lower + ".", ".norm.");
}

UpdateRule lora_plus_rule(const parallel::LogicalTensor& parameter, double ratio, double learning_rate) {
  const std::string& name = parameter.name;
  if (has(name, "lora_embedding_")) return {true, learning_rate > 0 ? kEmbeddingRate / learning_rate : 0};
  if (has(name, "lora_B") || parameter.shape.size() == 1) return {decays(name), ratio};
  return {true, 1};
}

}  // namespace trainer::optim
