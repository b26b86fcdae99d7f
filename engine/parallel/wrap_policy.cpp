#include "engine/parallel/wrap_policy.h"

#include <algorithm>
#include <set>

#include <fmt/ranges.h>

#include "engine/base/errors.h"

namespace trainer::parallel {

std::vector<nn::Module*> units_to_wrap(models::Model& model, const config::FsdpConfig& options) {
  if (options.auto_wrap_policy == config::WrapPolicy::kNoWrap) return {};
  std::vector<std::string> wanted = options.transformer_layer_cls_to_wrap;
  if (wanted.empty())
    for (const nn::Module* block : model.blocks())
      if (std::find(wanted.begin(), wanted.end(), block->class_name()) == wanted.end())
        wanted.push_back(block->class_name());
  std::vector<nn::Module*> units;
  std::set<std::string> classes;
  model.visit([&](nn::Module& module) {
    if (&module == &model) return;
    classes.insert(module.class_name());
    if (std::find(wanted.begin(), wanted.end(), module.class_name()) != wanted.end()) units.push_back(&module);
  });
  for (const std::string& name : wanted)
    if (classes.count(name) == 0)
      throw ConfigError("fsdp_config.fsdp_transformer_layer_cls_to_wrap: the model has no class {}.\n  It has: {}.",
                        name, fmt::join(classes, ", "));
  return units;
}

}  // namespace trainer::parallel
