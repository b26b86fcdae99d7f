// Injects adapters of PEFT's types into a model that has no values yet.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/config/sections/adapters.h"
#include "models/model.h"

namespace trainer::adapters {

/// Reads a whole weight, in fp32.
using ReadWeight = std::function<at::Tensor(const nn::Parameter&)>;
/// Whole weights that are computed from others, by name.
using DerivedWeights = std::map<std::string, std::function<at::Tensor(const ReadWeight&)>>;
/// Encodes a text to token ids.
using Encode = std::function<std::vector<int32_t>(const std::string&)>;

struct Injected {
  int64_t layers = 0;     // layers with an adapter
  DerivedWeights starts;  // initial values; all other parameters start by their Init
};

/// Freezes the model, adds adapters of `options.peft_type` (see layers.h), and unfreezes `modules_to_save` (a module
/// with a tied weight gets a copy of it, as in PEFT). Completes `options` from the model: default target layers, and a
/// classifier's head in modules_to_save. `encode` is only needed for prompt_tuning_init TEXT. Errors: ConfigError (see
/// target_layers), and for options that don't fit the model.
Injected inject(models::Model& model, config::LoraConfig& options, const Encode& encode = {});

/// Whether the parameter of this name belongs to an adapter; model folders never contain adapter parameters.
bool is_adapter(const std::string& parameter_name);

/// Number of placeholders (ids -1, -2, …) in front of every sample of a batch.
int64_t virtual_tokens(const config::LoraConfig& options);

/// Maps parameter names of `model` to their names in an adapter file: first the one that trainer writes, then others
/// that PEFT writes.
std::map<std::string, std::vector<std::string>> adapter_names(models::Model& model, const config::LoraConfig& options);

}  // namespace trainer::adapters
