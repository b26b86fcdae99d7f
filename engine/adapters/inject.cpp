#include "engine/adapters/inject.h"

#include <cmath>
#include <set>

#include "engine/adapters/lora_linear.h"
#include "engine/adapters/target.h"

namespace trainer::adapters {
namespace {

LoraShape shape_of(const config::LoraConfig& options, int64_t in) {
  const auto r = static_cast<double>(options.r);
  const double bound = 1.0 / std::sqrt(static_cast<double>(in));  // Kaiming-uniform with a = sqrt(5)
  LoraShape shape{options.r,
                  options.lora_alpha / (options.use_rslora ? std::sqrt(r) : r),
                  options.lora_dropout,
                  {nn::Init::kUniform, bound},
                  {nn::Init::kConstant, 0}};
  if (options.init_lora_weights == "gaussian") shape.a = {nn::Init::kNormal, 1.0 / r};
  if (options.init_lora_weights == "false") shape.b = {nn::Init::kUniform, 1.0 / std::sqrt(r)};
  return shape;
}

void unfreeze(nn::Module& module) {
  for (const auto& [name, parameter] : module.parameters()) {
    if (parameter->aliases.empty()) {
      parameter->trainable = true;
      continue;
    }
    // Tied: training it here must leave the others as they are.
    auto own = std::make_shared<nn::Parameter>(*parameter);
    own->trainable = true;
    own->copy_of = parameter->name;
    module.set_parameter(name, own);
  }
}

}  // namespace

int64_t inject_lora(models::Model& model, const config::LoraConfig& options) {
  const auto targets = lora_targets(model, options);
  const std::set<std::string> wanted(targets.begin(), targets.end());
  const auto saved = modules_to_save(model, options);
  for (const nn::ParameterPtr& parameter : model.all_parameters()) parameter->trainable = false;
  for (nn::Module* module : saved) module->visit(unfreeze);
  if (options.bias == config::LoraBias::kAll)  // by PEFT's test, which takes T5's relative_attention_bias too
    for (const nn::ParameterPtr& parameter : model.all_parameters())
      if (parameter->name.find("bias") != std::string::npos) parameter->trainable = true;
  model.visit([&](nn::Module& parent) {
    for (nn::Module::Child& child : parent.children())
      if (wanted.count(child.module->path()) != 0)
        child.module = std::make_shared<LoraLinear>(static_cast<nn::Linear&>(*child.module),
                                                    shape_of(options, static_cast<nn::Linear&>(*child.module).in()));
  });
  model.name_tree();
  return static_cast<int64_t>(targets.size());
}

std::string adapter_name(const std::string& parameter_name) {
  return "base_model.model." + parameter_name;
}

}  // namespace trainer::adapters
