#include "engine/parallel/wrap_policy.h"

#include <fnmatch.h>

#include <algorithm>
#include <functional>
#include <set>

#include <fmt/ranges.h>

#include "engine/base/errors.h"

namespace trainer::parallel {
namespace {

/// A list of modules is never called, so it can't be gathered before its forward.
bool is_called(const nn::Module& module) {
  return module.class_name() != "ModuleList";
}

bool is_below(const std::string& name, const nn::Module& module) {
  return module.path().empty() || name.starts_with(module.path() + ".");
}

/// The parameters of `module` that no module outside it uses.
std::vector<nn::ParameterPtr> own_parameters(nn::Module& module) {
  std::vector<nn::ParameterPtr> all = module.all_parameters();
  std::erase_if(all, [&](const nn::ParameterPtr& p) {
    return !is_below(p->name, module) ||
           !std::all_of(p->aliases.begin(), p->aliases.end(), [&](const auto& name) { return is_below(name, module); });
  });
  return all;
}

/// Visits a tree, children before parents.
void visit_inner_first(nn::Module& module, const std::function<void(nn::Module&)>& visitor) {
  for (nn::Module::Child& child : module.children()) visit_inner_first(*child.module, visitor);
  visitor(module);
}

/// Collects the modules in `module` that become units by size (never the root): as in torch's
/// size_based_auto_wrap_policy, a module is a unit if its elements that no inner unit took number at least `least`.
/// Returns how many elements units took.
int64_t wrap_by_size(nn::Module& module, bool root, int64_t least, std::vector<nn::Module*>& units) {
  int64_t all = 0, taken = 0;
  for (const nn::ParameterPtr& p : own_parameters(module)) all += p->numel();
  if (all < least) return 0;
  for (nn::Module::Child& child : module.children()) taken += wrap_by_size(*child.module, false, least, units);
  if (root || !is_called(module) || all - taken < least) return taken;
  units.push_back(&module);
  return all;
}

/// Whether a list entry is a path pattern ("encoder.block.*") and not a class ("T5Block").
bool is_pattern(const std::string& entry) {
  return entry.find_first_of(".*?[") != std::string::npos;
}

/// A star matches any text without a dot.
bool matches(const std::string& pattern, std::string path) {
  std::string slashed = pattern;
  for (std::string* text : {&slashed, &path}) std::replace(text->begin(), text->end(), '.', '/');
  return fnmatch(slashed.c_str(), path.c_str(), FNM_PATHNAME) == 0;
}

/// Patterns that match the blocks: "encoder.block.*".
std::set<std::string> block_paths(models::Model& model) {
  std::set<std::string> paths;
  for (const nn::Module* block : model.blocks()) paths.insert(block->path().substr(0, block->path().rfind('.')) + ".*");
  return paths;
}

std::vector<nn::Module*> wrap_by_name(models::Model& model, std::vector<std::string> wanted) {
  if (wanted.empty())
    for (const nn::Module* block : model.blocks()) wanted.push_back(block->class_name());
  std::vector<nn::Module*> units;
  std::set<std::string> classes, used;
  visit_inner_first(model, [&](nn::Module& module) {
    if (&module == &model || !is_called(module)) return;
    classes.insert(module.class_name());
    bool wraps = false;
    for (const std::string& entry : wanted)
      if (is_pattern(entry) ? matches(entry, module.path()) : entry == module.class_name())
        used.insert(entry), wraps = true;
    if (wraps) units.push_back(&module);
  });
  for (const std::string& entry : wanted)
    if (used.count(entry) == 0)
      throw ConfigError("fsdp_config.fsdp_transformer_layer_cls_to_wrap: the model has no {} {}.\n  {}: {}.",
                        is_pattern(entry) ? "module at" : "class", entry,
                        is_pattern(entry) ? "Its blocks are at" : "Its classes",
                        fmt::join(is_pattern(entry) ? block_paths(model) : classes, ", "));
  return units;
}

std::vector<nn::Module*> modules_to_wrap(models::Model& model, const config::FsdpConfig& options) {
  switch (options.auto_wrap_policy) {
    case config::WrapPolicy::kNoWrap:
      return {};
    case config::WrapPolicy::kSizeBased: {
      std::vector<nn::Module*> units;
      if (options.min_num_params > 0) wrap_by_size(model, true, options.min_num_params, units);
      return units;
    }
    case config::WrapPolicy::kTransformerBased:
      break;
  }
  return wrap_by_name(model, options.transformer_layer_cls_to_wrap);
}

}  // namespace

std::vector<UnitPlan> plan_units(models::Model& model, const config::FsdpConfig& options) {
  std::vector<nn::Module*> modules = modules_to_wrap(model, options);
  modules.push_back(&model);
  std::set<nn::ParameterPtr> taken;
  std::vector<UnitPlan> units;
  for (nn::Module* module : modules) {
    UnitPlan unit{module, {}};
    for (const nn::ParameterPtr& p : module == &model ? model.all_parameters() : own_parameters(*module))
      if (taken.insert(p).second) unit.parameters.push_back(p);
    if (!unit.parameters.empty() || module == &model) units.push_back(std::move(unit));
  }
  return units;
}

}  // namespace trainer::parallel
