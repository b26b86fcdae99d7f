#include "engine/adapters/target.h"

#include <algorithm>
#include <regex>
#include <set>

#include <fmt/ranges.h>

#include "engine/base/errors.h"
#include "models/nn/linear.h"

namespace trainer::adapters {
namespace {

bool ends_with_name(const std::string& path, const std::string& name) {
  return path == name ||
         (path.size() > name.size() && path.ends_with(name) && path[path.size() - name.size() - 1] == '.');
}

bool matches_pattern(const std::string& path, const std::string& pattern, const char* option) {
  try {
    return std::regex_match(path, std::regex(pattern, std::regex::ECMAScript));
  } catch (const std::regex_error& error) {
    throw ConfigError("lora.{}: '{}' is not a regular expression: {}.", option, pattern, error.what());
  }
}

bool matches(const std::string& path, const config::NamesOrPattern& wanted, const char* option) {
  if (!wanted.pattern.empty()) return matches_pattern(path, wanted.pattern, option);
  return std::any_of(wanted.names.begin(), wanted.names.end(),
                     [&](const auto& name) { return ends_with_name(path, name); });
}

/// m itself, or anything inside it, at any depth: PEFT's rule for modules_to_save.
bool inside(const std::string& path, const std::string& module) {
  const std::string dotted = "." + path + ".";
  return dotted.find("." + module + ".") != std::string::npos;
}

std::string last_part(const std::string& path) {
  return path.substr(path.rfind('.') + 1);
}

}  // namespace

std::vector<std::string> lora_targets(models::Model& model, const config::LoraConfig& options) {
  config::NamesOrPattern wanted = options.target_modules;
  if (wanted.empty()) wanted.names = model.default_lora_targets();
  const bool all_linear = wanted.pattern == "all-linear";
  std::vector<std::string> targets;
  std::set<std::string> candidates;
  model.visit([&](nn::Module& module) {
    if (dynamic_cast<nn::Linear*>(&module) == nullptr) return;
    const std::string& path = module.path();
    candidates.insert(last_part(path));
    const auto saved = [&](const auto& name) { return inside(path, name); };
    if (std::any_of(options.modules_to_save.begin(), options.modules_to_save.end(), saved)) return;
    if (!options.exclude_modules.empty() && matches(path, options.exclude_modules, "exclude_modules")) return;
    if (all_linear ? path != model.output_head() : matches(path, wanted, "target_modules")) targets.push_back(path);
  });
  if (!targets.empty()) return targets;
  throw ConfigError(
      "lora.target_modules: {} matches no linear layer of the model.\n  Its linear layers are called {}.",
      wanted.pattern.empty() ? fmt::format("[{}]", fmt::join(wanted.names, ", ")) : "'" + wanted.pattern + "'",
      fmt::join(candidates, ", "));
}

std::vector<nn::Module*> modules_to_save(models::Model& model, const config::LoraConfig& options) {
  std::vector<nn::Module*> found;
  for (const std::string& name : options.modules_to_save) {
    bool any = false;
    model.visit([&](nn::Module& module) {
      if (!ends_with_name(module.path(), name)) return;
      found.push_back(&module);
      any = true;
    });
    // PEFT adds these two by itself for classification, whether the model has them or not.
    if (!any && name != "classifier" && name != "score")
      throw ConfigError("lora.modules_to_save: the model has no module called {}.", name);
  }
  return found;
}

}  // namespace trainer::adapters
