#include "engine/adapters/merge.h"

#include <fmt/ranges.h>

#include "engine/adapters/layers.h"
#include "engine/base/errors.h"

namespace trainer::adapters {
namespace {

std::vector<std::string> kinds_that_merge() {
  std::vector<std::string> kinds;
  for (const auto& [name, layers] : all_layers())
    if (layers->merge != nullptr) kinds.push_back(name);
  return kinds;
}

bool stored_as_matrix(const nn::Linear& layer) {
  return layer.stored() == nn::Linear::Stored::kOutIn;
}

}  // namespace

DerivedWeights merged_weights(models::Model& model, const config::LoraConfig& options) {
  const auto merge = layers_of(options).merge;
  if (merge == nullptr)
    throw ConfigError(
        "{}: the adapter is of type {}, whose prompts are inputs of the model, not changes of its weights.\n  Adapters "
        "that can be merged: {}. Use this one with its base model.",
        options.path, options.peft_type, fmt::join(kinds_that_merge(), ", "));
  DerivedWeights merged;
  model.visit([&](const nn::Module& module) { merged.merge(merge(module)); });
  return merged;
}

at::Tensor matrix_of(const nn::Linear& layer, const ReadWeight& read) {
  const at::Tensor w = read(*layer.weight());
  return stored_as_matrix(layer) ? w : w.t().contiguous();
}

DerivedWeights merged_matrix(const nn::Linear& layer,
                             std::function<at::Tensor(const at::Tensor& matrix, const ReadWeight& read)> merge) {
  return {{name_in(layer, "weight"), [&layer, merge = std::move(merge)](const ReadWeight& read) {
             const at::Tensor merged = merge(matrix_of(layer, read), read);
             return stored_as_matrix(layer) ? merged : merged.t().contiguous();
           }}};
}

std::string name_in(const nn::Module& module, const char* parameter) {
  return module.path() + "." + parameter;
}

}  // namespace trainer::adapters
