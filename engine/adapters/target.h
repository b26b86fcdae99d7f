#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/config/sections/adapters.h"
#include "models/model.h"

namespace trainer::adapters {

/// The paths of the linear layers and embeddings that get an adapter, by PEFT's rules: a name in a list matches the
/// whole path or its end after a dot, within the blocks of `layers_to_transform`; a pattern must match the whole path;
/// "all-linear" is every linear layer except the output head; exclusions and `modules_to_save` take precedence.
/// Errors: ConfigError that lists the candidates if nothing matches, or if a pattern is not a regular expression.
std::vector<std::string> target_layers(models::Model& model, const config::LoraConfig& options);

/// Those layers.
std::vector<nn::Module*> target_modules(models::Model& model, const config::LoraConfig& options);

/// Replaces each of those layers by what `adapted` makes of it. Returns their number.
int64_t replace_targets(models::Model& model, const config::LoraConfig& options,
                        const std::function<std::shared_ptr<nn::Module>(nn::Module&)>& adapted);

/// The modules that `modules_to_save` names: trained in full and saved with the adapter.
std::vector<nn::Module*> modules_to_save(models::Model& model, const config::LoraConfig& options);

}  // namespace trainer::adapters
