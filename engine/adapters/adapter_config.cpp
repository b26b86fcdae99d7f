#include "engine/adapters/adapter_config.h"

#include "engine/adapters/config_json.h"
#include "engine/adapters/layers.h"
#include "engine/adapters/model_facts.h"

namespace trainer::adapters {

std::string adapter_config_json(const config::LoraConfig& options, models::Model& model,
                                const std::string& base_model) {
  using nlohmann::json;
  const std::string task = task_type(model.task());
  json file = {{"peft_type", options.peft_type},
               {"task_type", task.empty() ? json(nullptr) : json(task)},
               {"auto_mapping", nullptr},
               {"base_model_name_or_path", base_model},
               {"revision", nullptr},
               {"inference_mode", true},
               {"modules_to_save", or_null(options.modules_to_save)}};
  file.update(layers_of(options).describe(options, model, base_model));
  return file.dump(2) + "\n";
}

}  // namespace trainer::adapters
