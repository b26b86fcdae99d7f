#include "engine/config/plan/reference_model.h"

#include <nlohmann/json.hpp>

#include "engine/base/bounded_json.h"
#include "engine/config/plan/adapter_folder.h"

namespace trainer::config {

ReferenceModel reference_of(const Config& config) {
  return {config.model.path, config.model.config, config.lora ? config.lora->path : ""};
}

void use_reference(Config& config, const ReferenceModel& reference) {
  config.model.path = reference.path;
  config.model.config = reference.config;
  config.lora.reset();
  if (!reference.adapter.empty()) config.lora = read_adapter_config({.path = reference.adapter});
}

std::string to_json(const ReferenceModel& reference) {
  return nlohmann::json{{"path", reference.path}, {"config", reference.config}, {"adapter", reference.adapter}}.dump();
}

ReferenceModel reference_from(const std::string& json) {
  const nlohmann::json from = bounded_json(json);
  return {from.at("path"), from.at("config"), from.at("adapter")};
}

}  // namespace trainer::config
