// Puts adapters of PEFT's kinds into a model that has no values yet.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/config/sections.h"
#include "models/model.h"

namespace trainer::adapters {

/// Reads a whole weight as it starts, in fp32.
using ReadWeight = std::function<at::Tensor(const nn::Parameter&)>;
/// How parameters start that are made out of other weights, by name; every other one starts as its Init says.
using Starts = std::map<std::string, std::function<at::Tensor(const ReadWeight&)>>;
/// The token ids of a text.
using Encode = std::function<std::vector<int32_t>(const std::string&)>;

struct Injected {
  int64_t layers = 0;  // that got an adapter
  Starts starts;
};

/// Freezes the model, puts adapters of `options.peft_type` into it, and unfreezes `modules_to_save` (a module that
/// shares its weight gets one of its own, as PEFT's copy is). Fills in what `options` leaves to the model: default
/// layers, and the head of a classifier among modules_to_save. `encode` is needed for prompt_tuning_init TEXT only.
/// Errors: ConfigError (see target_layers), and for what doesn't fit the model.
Injected inject(models::Model& model, config::LoraConfig& options, const Encode& encode = {});

/// Whether a parameter belongs to an adapter, by its name: it is in no model folder.
bool is_adapter(const std::string& parameter_name);

/// What an adapter file calls the parameters of `model`, by their names.
std::map<std::string, std::string> adapter_names(models::Model& model, const config::LoraConfig& options);

}  // namespace trainer::adapters
