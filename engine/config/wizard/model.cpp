#include "engine/config/wizard/model.h"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "engine/base/bounded_json.h"

namespace trainer::config {

std::string ModelDescription::text() const {
  std::string out = fmt::format("{}, {:.1f} million parameters", class_name, static_cast<double>(parameters) / 1e6);
  for (const auto& [name, count] : blocks) out += fmt::format(", {} x {}", count, name);
  if (!labels.empty()) out += fmt::format("; classes: {}", fmt::join(labels, ", "));
  return out;
}

std::string ModelDescription::linear_text() const {
  std::string out;
  for (const LinearLayers& layers : linear_layers) {
    const char* const comma = out.empty() ? "" : ", ";
    out += fmt::format("{}{} {} x [{}, {}]", comma, layers.name, layers.count, layers.out, layers.in);
  }
  return out;
}

std::string ModelDescription::block_classes() const {
  std::string out;
  for (const auto& [name, count] : blocks) out += (out.empty() ? "" : ",") + name;
  return out;
}

std::optional<ModelDescription> parse_description(const std::string& json) {
  try {
    const auto parsed = bounded_json_or_none(json);
    ModelDescription model;
    model.error = parsed.value("error", "");
    if (!model.error.empty()) return model;
    model.class_name = parsed.at("class");
    model.family = parsed.value("family", "");
    model.tasks = parsed.value("tasks", model.tasks);
    model.classes = parsed.value("classes", model.classes);
    model.labels = parsed.value("labels", model.labels);
    model.adaptable = parsed.value("adaptable", model.adaptable);
    model.vocabulary = parsed.value("vocabulary", int64_t{0});
    model.positions = parsed.value("positions", int64_t{0});
    model.parameters = parsed.at("parameters");
    for (const auto& [name, count] : parsed.at("blocks").items()) model.blocks.emplace_back(name, count);
    model.lora_targets = parsed.at("lora_targets");
    for (const auto& layers : parsed.at("linear_layers")) {
      const auto& shape = layers.at("shape");
      model.linear_layers.push_back({layers.at("name"), layers.at("count"), shape.at(0), shape.at(1)});
    }
    return model;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

}  // namespace trainer::config
