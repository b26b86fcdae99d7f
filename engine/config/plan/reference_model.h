#pragma once

#include <string>

#include "engine/config/sections.h"

namespace trainer::config {

/// The reference of preferences: the model that their run starts from. A new adapter changes nothing yet, so it is left
/// out.
struct ReferenceModel {
  std::string path, config;  // of model
  std::string adapter;       // lora.path; "": none
};

ReferenceModel reference_of(const Config& config);
/// Puts it in place of the model of `config`. Errors: InputError for an adapter that can't be read.
void use_reference(Config& config, const ReferenceModel& reference);

/// As one JSON object, for the program that evaluates.
std::string to_json(const ReferenceModel& reference);
ReferenceModel reference_from(const std::string& json);

}  // namespace trainer::config
