#include "engine/adapters/inject.h"

#include <algorithm>

#include "engine/adapters/inject_ia3.h"
#include "engine/adapters/inject_lora.h"
#include "engine/adapters/inject_prefix.h"
#include "engine/adapters/inject_prompt.h"
#include "engine/adapters/model_facts.h"
#include "engine/adapters/prefix_encoder.h"
#include "engine/adapters/target.h"
#include "engine/base/errors.h"

namespace trainer::adapters {
namespace {

constexpr const char* kPrompt = "prompt_embeddings";
constexpr const char* kParts[] = {".lora_", ".ia3_l", ".prompt_encoder.", ".prompt_embeddings"};

void unfreeze(nn::Module& module) {
  for (const auto& [name, parameter] : module.parameters()) {
    if (parameter->aliases.empty()) {
      parameter->trainable = true;
      continue;
    }
    // Tied: training it must not change the other layers.
    auto own = std::make_shared<nn::Parameter>(*parameter);
    own->trainable = true;
    own->copy_of = parameter->name;
    module.set_parameter(name, own);
  }
}

/// Whether `module` is a prefix learned directly, whose weights are the whole adapter file.
bool is_whole_prefix(nn::Module& module) {
  const auto* encoder = dynamic_cast<PrefixEncoder*>(&module);
  return encoder != nullptr && !encoder->shape().projected;
}

/// PEFT also trains a classifier's head, under transformers' names for it.
void add_head(const models::Model& model, config::LoraConfig& options) {
  if (model.task() != models::Task::kSequenceClassification) return;
  for (const char* head : {"classifier", "score"})
    if (std::count(options.modules_to_save.begin(), options.modules_to_save.end(), head) == 0)
      options.modules_to_save.emplace_back(head);
}

bool is_prompt(const config::LoraConfig& options) {
  return options.peft_type == "PROMPT_TUNING" || options.peft_type == "P_TUNING" ||
         options.peft_type == "PREFIX_TUNING";
}

}  // namespace

Injected inject(models::Model& model, config::LoraConfig& options, const Encode& encode) {
  add_head(model, options);
  const auto saved = modules_to_save(model, options);
  for (const nn::ParameterPtr& parameter : model.all_parameters()) parameter->trainable = false;
  for (nn::Module* module : saved) module->visit(unfreeze);
  if (options.peft_type == "LORA") return inject_lora(model, options);
  if (options.peft_type == "IA3") return inject_ia3(model, options);
  if (options.peft_type == "PREFIX_TUNING") return inject_prefix(model, options);
  if (is_prompt(options)) return inject_prompt(model, options, encode);
  throw ConfigError("lora.peft_type {} is not supported; LORA, IA3, PREFIX_TUNING, PROMPT_TUNING and P_TUNING are",
                    options.peft_type);
}

bool is_adapter(const std::string& name) {
  return std::any_of(std::begin(kParts), std::end(kParts),
                     [&](const char* part) { return name.find(part) != std::string::npos; });
}

std::map<std::string, std::string> adapter_names(models::Model& model, const config::LoraConfig& options) {
  // PEFT wraps a model whose layers it changes in another module, but not a model with a prompt.
  const std::string root = is_prompt(options) ? "base_model." : "base_model.model.";
  std::map<std::string, std::string> names;
  model.visit([&](nn::Module& module) {
    const auto& parameters = module.parameters();
    const bool adapted =
        std::any_of(parameters.begin(), parameters.end(), [](const auto& p) { return is_adapter("." + p.first); });
    const std::string path = module.path().empty() ? "" : module.path() + ".";
    for (const auto& [name, parameter] : parameters) {
      const bool of_base = adapted && !is_adapter("." + name);
      const std::string in_file =
          name == kPrompt || is_whole_prefix(module) ? kPrompt : root + path + (of_base ? "base_layer." : "") + name;
      names.emplace(parameter->name, in_file);
    }
  });
  return names;
}

}  // namespace trainer::adapters
