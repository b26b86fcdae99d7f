#include "engine/train/combine/combined_config.h"

#include <algorithm>
#include <iterator>
#include <set>

namespace trainer::train {
namespace {

using nlohmann::json;

/// Whether all adapters have the same value of the key.
bool agree(const SourceAdapters& adapters, const char* key) {
  return std::all_of(adapters.begin(), adapters.end(),
                     [&](const auto& adapter) { return adapter->value(key) == adapters.front()->value(key); });
}

/// All names in the lists that the adapters have for the key.
json union_of(const SourceAdapters& adapters, const char* key) {
  std::set<std::string> names;
  for (const auto& adapter : adapters)
    for (const json& name : adapter->value(key)) names.insert(name.get<std::string>());
  return names.empty() ? json() : json(names);
}

/// Sets what decides which layers have an adapter: PEFT's union if it means exactly the adapters' layers.
void set_targets(const SourceAdapters& adapters, json& config) {
  constexpr const char *kKey = "target_modules",
                       *kLimits[] = {"exclude_modules", "layers_to_transform", "layers_pattern"};
  const auto all = [&](const auto& condition) {
    return std::all_of(adapters.begin(), adapters.end(),
                       [&](const auto& adapter) { return condition(adapter->value(kKey)); });
  };
  const bool same_limits =
      std::all_of(std::begin(kLimits), std::end(kLimits), [&](const char* key) { return agree(adapters, key); });
  if (same_limits && all([](const json& value) { return value.is_array(); })) {
    config[kKey] = union_of(adapters, kKey);
  } else if (!same_limits || !agree(adapters, kKey) || config[kKey].is_null()) {
    std::vector<std::string> paths;
    for (const auto& [layer, suffixes] : all_layers(adapters)) paths.push_back(layer_path(layer));
    config[kKey] = paths;
    for (const char* const key : kLimits) config[key] = nullptr;
  }
}

}  // namespace

json combined_config(const SourceAdapters& adapters, const CombineResult& result) {
  json config = adapters.front()->json();
  config["r"] = config["lora_alpha"] = result.rank;  // the scale is 1
  config["rank_pattern"] = config["alpha_pattern"] = json::object();
  config["use_rslora"] = false;
  config["init_lora_weights"] = true;
  config["inference_mode"] = true;
  config["modules_to_save"] = union_of(adapters, "modules_to_save");
  for (const auto& adapter : adapters)
    if (!adapter->base().task.empty()) config["task_type"] = adapter->base().task;
  config["base_model_name_or_path"] = result.base.empty() ? json() : json(result.base);
  set_targets(adapters, config);
  return config;
}

}  // namespace trainer::train
