#include "engine/adapters/inject.h"

#include <algorithm>
#include <utility>

#include "engine/adapters/layers.h"
#include "engine/adapters/target.h"
#include "models/nn/linear.h"

namespace trainer::adapters {
namespace {

/// Whether an embedding uses the weight.
bool is_table(models::Model& model, const nn::ParameterPtr& weight) {
  bool found = false;
  model.visit([&](nn::Module& module) {
    const auto* embedding = dynamic_cast<const nn::Embedding*>(&module);
    found = found || (embedding != nullptr && embedding->weight() == weight);
  });
  return found;
}

/// Trains a weight of `module`. If other layers share it (tied), the module gets a copy: training must not change them.
void unfreeze(models::Model& model, nn::Module& module, const std::string& name, const nn::ParameterPtr& shared) {
  if (shared->aliases.empty()) {
    shared->trainable = true;
    return;
  }
  shared->copy_of = shared->name;  // either weight may lose the name that the files have for both
  const auto own = std::make_shared<nn::Parameter>(*shared);
  own->trainable = true;
  module.set_parameter(name, own);
  for (const nn::ParameterPtr& weight : {shared, own})
    if (!is_table(model, weight)) weight->axes = {.in = 1, .out = 0};  // a head's alone, without the embedding's axes
}

/// PEFT also trains a classifier's head, under transformers' names for it.
void add_head(const models::Model& model, config::LoraConfig& options) {
  if (model.task() != models::Task::kSequenceClassification) return;
  for (const char* head : {"classifier", "score"})
    if (std::count(options.modules_to_save.begin(), options.modules_to_save.end(), head) == 0)
      options.modules_to_save.emplace_back(head);
}

const std::vector<std::string>& all_parts() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> parts;
    for (const auto& [name, layers] : all_layers())
      parts.insert(parts.end(), layers->parts.begin(), layers->parts.end());
    return parts;
  }();
  return all;
}

}  // namespace

Injected inject(models::Model& model, config::LoraConfig& options, const Encode& encode) {
  const KindLayers& layers = layers_of(options);
  add_head(model, options);
  const auto saved = modules_to_save(model, options);
  for (const nn::ParameterPtr& parameter : model.all_parameters()) parameter->trainable = false;
  for (nn::Module* const top : saved)
    top->visit([&](nn::Module& module) {
      const auto parameters = module.parameters();
      for (const auto& [name, parameter] : parameters) unfreeze(model, module, name, parameter);
    });
  return layers.inject(model, options, encode);
}

bool is_adapter(const std::string& name) {
  return std::any_of(all_parts().begin(), all_parts().end(),
                     [&](const std::string& part) { return name.find(part) != std::string::npos; });
}

int64_t virtual_tokens(const config::LoraConfig& options) {
  return layers_of(options).placeholders ? options.num_virtual_tokens : 0;
}

std::map<std::string, std::vector<std::string>> adapter_names(models::Model& model, const config::LoraConfig& options) {
  const KindLayers& layers = layers_of(options);
  std::map<std::string, std::vector<std::string>> names;
  model.visit([&](nn::Module& module) {
    const auto& parameters = module.parameters();
    const bool adapted =
        std::any_of(parameters.begin(), parameters.end(), [](const auto& p) { return is_adapter("." + p.first); });
    const std::string path = layers.root + (module.path().empty() ? "" : module.path() + ".");
    for (const auto& [name, parameter] : parameters) {
      const std::string own = layers.file_name != nullptr ? layers.file_name(module, name) : "";
      const bool of_adapter = is_adapter("." + name);
      auto& found = names[parameter->name];
      found.push_back(!own.empty() ? own : path + (adapted && !of_adapter ? "base_layer." : "") + name);
      if (!of_adapter) found.push_back(path + "modules_to_save." + name);  // a bias of bias: all
    }
  });
  return names;
}

}  // namespace trainer::adapters
