#include "engine/adapters/layers.h"

#include "engine/base/errors.h"

namespace trainer::adapters {

const std::map<std::string, const KindLayers*>& all_layers() {
#define TRAINER_LIST_LAYERS(kind) {config::kind##_kind().name, &kind##_layers()},
  static const std::map<std::string, const KindLayers*> all{TRAINER_ADAPTER_KINDS(TRAINER_LIST_LAYERS)};
#undef TRAINER_LIST_LAYERS
  return all;
}

const KindLayers& layers_of(const config::LoraConfig& options) {
  const auto found = all_layers().find(options.peft_type);
  if (found == all_layers().end())
    throw ConfigError("lora.peft_type {} is not supported; {} are", options.peft_type,
                      config::adapter_kinds_that([](const auto&) { return true; }, "and"));
  return *found->second;
}

}  // namespace trainer::adapters
