#include "engine/adapters/config_json.h"

#include "models/nn/linear.h"

namespace trainer::adapters {

using nlohmann::json;

json names_or_pattern(const config::NamesOrPattern& value) {
  return value.pattern.empty() ? or_null(value.names) : json(value.pattern);
}

json number(double value) {
  const auto whole = static_cast<int64_t>(value);
  return value == static_cast<double>(whole) ? json(whole) : json(value);
}

json numbers(const std::map<std::string, double>& values) {
  json out = json::object();
  for (const auto& [key, value] : values) out[key] = number(value);
  return out;
}

bool has_conv1d(models::Model& model) {
  bool found = false;
  model.visit([&](nn::Module& module) {
    const auto* linear = dynamic_cast<nn::Linear*>(&module);
    found = found || (linear != nullptr && linear->stored() == nn::Linear::Stored::kInOut);
  });
  return found;
}

}  // namespace trainer::adapters
