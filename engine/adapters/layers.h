// The kinds of adapters. This is what a kind does to a model; engine/config/adapters/adapter_kind.h is what it means to
// a configuration.
#pragma once

#include <set>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "engine/adapters/adapter_file.h"
#include "engine/adapters/inject.h"
#include "engine/config/adapters/adapter_kind.h"

namespace trainer::adapters {

/// One kind of adapter.
struct KindLayers {
  /// Adds adapters to a frozen model. Completes `options` from the model.
  Injected (*inject)(models::Model& model, config::LoraConfig& options, const Encode& encode) = nullptr;
  /// The keys of adapter_config.json that only some kinds have.
  nlohmann::json (*describe)(const config::LoraConfig& options, models::Model& model,
                             const std::string& base_model) = nullptr;
  std::vector<std::string> parts;          // of its parameters' names
  std::string root = "base_model.model.";  // of the names in its file: PEFT wraps the model
  bool placeholders = false;               // batches hold placeholders of its prompt
  /// The name in the file of `module`'s own parameter; "": the name in the model, behind `root`. Null: always that.
  std::string (*file_name)(const nn::Module& module, const std::string& parameter) = nullptr;
  /// Adds the tensors of `module` that aren't trained parameters unchanged. Null: there are none.
  void (*save)(nn::Module& module, const config::LoraConfig& options, AdapterFile& file) = nullptr;
  /// The weights of `module` with its adapter merged into them; see merge.h. Null: this kind can't be merged.
  DerivedWeights (*merge)(const nn::Module& module) = nullptr;
};

#define TRAINER_DECLARE_LAYERS(name) const KindLayers& name##_layers();
TRAINER_ADAPTER_KINDS(TRAINER_DECLARE_LAYERS)
#undef TRAINER_DECLARE_LAYERS

/// Of every kind, by the names of engine/config/adapters/adapter_kind.h.
const std::map<std::string, const KindLayers*>& all_layers();
/// Those of `options.peft_type`. Errors: ConfigError if it is unknown.
const KindLayers& layers_of(const config::LoraConfig& options);

}  // namespace trainer::adapters
