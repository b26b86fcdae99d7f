#include "engine/adapters/inject_ia3.h"

#include <algorithm>
#include <set>

#include "engine/adapters/ia3_linear.h"
#include "engine/adapters/model_facts.h"
#include "engine/adapters/pattern.h"
#include "engine/adapters/target.h"
#include "engine/base/errors.h"

namespace trainer::adapters {
namespace {

void complete(const models::Model& model, config::LoraConfig& options) {
  if (options.target_modules.empty()) options.target_modules.names = default_ia3_layers(model).targets;
  if (options.feedforward_modules.empty()) options.feedforward_modules.names = default_ia3_layers(model).feedforward;
}

/// By PEFT's rule, which differs from that of target_modules: any suffix of the path matches.
bool is_feedforward(const std::string& path, const config::NamesOrPattern& wanted) {
  if (!wanted.pattern.empty()) return matches_whole(path, wanted.pattern, "feedforward_modules");
  return std::any_of(wanted.names.begin(), wanted.names.end(), [&](const auto& name) { return path.ends_with(name); });
}

}  // namespace

Injected inject_ia3(models::Model& model, config::LoraConfig& options) {
  complete(model, options);
  const auto targets = target_layers(model, options);
  const std::set<std::string> wanted(targets.begin(), targets.end());
  const nn::Init init = options.init_ia3_weights ? nn::Init{nn::Init::kConstant, 1} : nn::Init{nn::Init::kNormal, 1};
  Injected injected;
  model.visit([&](nn::Module& parent) {
    for (nn::Module::Child& child : parent.children()) {
      const std::string& path = child.module->path();
      if (wanted.count(path) == 0) continue;
      auto* linear = dynamic_cast<nn::Linear*>(child.module.get());
      if (linear == nullptr) throw ConfigError("lora.target_modules: {} is an embedding, which IA3 can't scale", path);
      const Ia3Side side = is_feedforward(path, options.feedforward_modules) ? Ia3Side::kInput : Ia3Side::kOutput;
      child.module = std::make_shared<Ia3Linear>(*linear, side, init);
      ++injected.layers;
    }
  });
  model.name_tree();
  return injected;
}

}  // namespace trainer::adapters
