// Values of adapter_config.json, in the form in which PEFT writes them.
#pragma once

#include <vector>

#include <nlohmann/json.hpp>

#include "engine/config/sections/adapters.h"
#include "models/model.h"

namespace trainer::adapters {

/// An empty list is null.
template <class T>
nlohmann::json or_null(const std::vector<T>& values) {
  return values.empty() ? nlohmann::json(nullptr) : nlohmann::json(values);
}
nlohmann::json names_or_pattern(const config::NamesOrPattern& value);

/// A whole number as an integer, the type that PEFT declares for alpha.
nlohmann::json number(double value);
/// The same for the values of alpha_pattern.
nlohmann::json numbers(const std::map<std::string, double>& values);

/// fan_in_fan_out: whether the model has layers whose weights are stored [in, out].
bool has_conv1d(models::Model& model);

}  // namespace trainer::adapters
