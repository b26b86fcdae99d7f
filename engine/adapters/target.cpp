#include "engine/adapters/target.h"

#include <algorithm>
#include <set>

#include <fmt/ranges.h>

#include "engine/adapters/pattern.h"
#include "engine/base/errors.h"
#include "models/nn/linear.h"

namespace trainer::adapters {
namespace {

bool ends_with_name(const std::string& path, const std::string& name) {
  return path == name ||
         (path.size() > name.size() && path.ends_with(name) && path[path.size() - name.size() - 1] == '.');
}

bool matches(const std::string& path, const config::NamesOrPattern& wanted, const char* option) {
  if (!wanted.pattern.empty()) return matches_whole(path, wanted.pattern, option);
  return std::any_of(wanted.names.begin(), wanted.names.end(),
                     [&](const auto& name) { return ends_with_name(path, name); });
}

/// The index of the block that contains `path`; -1: none.
int64_t block_of(const std::string& path, const config::LoraConfig& options) {
  if (options.layers_pattern.empty()) return number_at_start(path, ".*?\\.[^.]*\\.(\\d+)\\.", "layers_pattern");
  for (const std::string& pattern : options.layers_pattern) {
    const int64_t number = number_at_start(path, "(?:^|.*?\\.)" + pattern + "\\.(\\d+)\\.", "layers_pattern");
    if (number >= 0) return number;
  }
  return -1;
}

/// Whether layers_to_transform includes a layer. A layer given by its full path always passes, as in PEFT.
bool in_chosen_block(const std::string& path, const config::LoraConfig& options) {
  const auto& names = options.target_modules.names;
  const auto& blocks = options.layers_to_transform;
  if (blocks.empty() || std::count(names.begin(), names.end(), path) != 0) return true;
  return std::count(blocks.begin(), blocks.end(), block_of(path, options)) != 0;
}

/// Whether `path` is `module` or anything inside it, at any depth: PEFT's rule for modules_to_save.
bool inside(const std::string& path, const std::string& module) {
  const std::string dotted = "." + path + ".";
  return dotted.find("." + module + ".") != std::string::npos;
}

std::string last_part(const std::string& path) {
  return path.substr(path.rfind('.') + 1);
}

}  // namespace

std::vector<std::string> target_layers(models::Model& model, const config::LoraConfig& options) {
  const config::NamesOrPattern& wanted = options.target_modules;
  const bool all_linear = wanted.pattern == "all-linear";
  std::vector<std::string> targets;
  std::set<std::string> candidates;
  model.visit([&](nn::Module& module) {
    const bool linear = dynamic_cast<nn::Linear*>(&module) != nullptr;
    if (!linear && dynamic_cast<nn::Embedding*>(&module) == nullptr) return;
    const std::string& path = module.path();
    candidates.insert(last_part(path));
    const auto saved = [&](const auto& name) { return inside(path, name); };
    if (std::any_of(options.modules_to_save.begin(), options.modules_to_save.end(), saved)) return;
    if (!options.exclude_modules.empty() && matches(path, options.exclude_modules, "exclude_modules")) return;
    if (all_linear ? linear && path != model.output_head()
                   : matches(path, wanted, "target_modules") && in_chosen_block(path, options))
      targets.push_back(path);
  });
  if (!targets.empty()) return targets;
  throw ConfigError(
      "lora.target_modules: {} matches no layer of the model{}.\n  Its layers are named {}.",
      wanted.pattern.empty() ? fmt::format("[{}]", fmt::join(wanted.names, ", ")) : "'" + wanted.pattern + "'",
      options.layers_to_transform.empty()
          ? ""
          : fmt::format(" in the blocks [{}] of layers_to_transform", fmt::join(options.layers_to_transform, ", ")),
      fmt::join(candidates, ", "));
}

std::vector<nn::Module*> target_modules(models::Model& model, const config::LoraConfig& options) {
  const auto targets = target_layers(model, options);
  const std::set<std::string> wanted(targets.begin(), targets.end());
  std::vector<nn::Module*> modules;
  model.visit([&](nn::Module& module) {
    if (wanted.count(module.path()) != 0) modules.push_back(&module);
  });
  return modules;
}

int64_t replace_targets(models::Model& model, const config::LoraConfig& options,
                        const std::function<std::shared_ptr<nn::Module>(nn::Module&)>& adapted) {
  const auto targets = target_layers(model, options);
  const std::set<std::string> wanted(targets.begin(), targets.end());
  int64_t count = 0;
  model.visit([&](nn::Module& parent) {
    for (nn::Module::Child& child : parent.children()) {
      if (wanted.count(child.module->path()) == 0) continue;
      child.module = adapted(*child.module);
      ++count;
    }
  });
  model.name_tree();
  return count;
}

std::vector<nn::Module*> modules_to_save(models::Model& model, const config::LoraConfig& options) {
  std::vector<nn::Module*> found;
  for (const std::string& name : options.modules_to_save) {
    bool any = false;
    model.visit([&](nn::Module& module) {
      if (!module.path().ends_with(name)) return;  // as in PEFT, which asks for no dot before the name here
      found.push_back(&module);
      any = true;
    });
    // PEFT always adds these two for classification, even if the model lacks them.
    if (!any && name != "classifier" && name != "score")
      throw ConfigError("lora.modules_to_save: the model has no module named {}.", name);
  }
  return found;
}

}  // namespace trainer::adapters
